"""The conformance suites at the fixture itself, and at a gateway in front of it."""

from __future__ import annotations

import pytest
from runs import SERVER


@pytest.fixture(scope="module")
def direct(fixture_server, tmp_path_factory):
    """What the fixture scores without a gateway: the measure for what a gateway loses."""
    found = {}

    def score(name):
        if name not in found:
            folder = tmp_path_factory.mktemp("direct") / name
            found[name] = SERVER[name].at(fixture_server.url, folder)
        return found[name]

    return score


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SERVER)
def test_the_fixture_passes_everything(direct, name):
    score = direct(name)
    assert score.lost == [], score.why(score.lost)
    assert score.passed == SERVER[name].scenarios
    assert score.complaints() == {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SERVER)
def test_nothing_is_lost_through_a_gateway(direct, passed_through, tmp_path, name):
    through = SERVER[name].at(passed_through.mcp, tmp_path)
    assert through.lost == [], through.why(through.lost)
    assert through.passed == SERVER[name].scenarios

    # Scenarios that are not scored, and checks that only warn: none of that is lost either.
    assert through.complaints() == {}
    assert through.unscored.keys() == direct(name).unscored.keys()
