"""The scenarios about tools, at Toolcrib's own tools: no other server is involved."""

from __future__ import annotations

import pytest
from processes import own_tools
from runs import SERVER, about_tools


@pytest.fixture(scope="module")
def own():
    with own_tools() as running:
        yield running.url


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SERVER)
def test_own_tools_pass_every_scenario_about_tools(own, tmp_path, name):
    score = about_tools(SERVER[name].at(own, tmp_path))
    assert score.lost == [], score.why(score.lost)
    assert {"tools-list", "tools-call-with-progress", "tools-call-error"} <= score.scored.keys()
