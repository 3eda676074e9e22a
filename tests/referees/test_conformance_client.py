"""The provider as a client, judged scenario by scenario."""

from __future__ import annotations

import environments
import suites
from runs import CLIENT


def pytest_generate_tests(metafunc):
    """The suite says itself which scenarios a revision has."""
    if "scenario" in metafunc.fixturenames:
        known = CLIENT if environments.MODULES.exists() else {}
        pairs = [(revision, name) for revision in known for name in suites.scenarios(revision)]
        metafunc.parametrize(("revision", "scenario"), pairs)


def test_the_suite_has_as_many_scenarios_as_the_score_says():
    assert {revision: len(suites.scenarios(revision)) for revision in CLIENT} == CLIENT


def test_a_client_does_what_the_scenario_wants(tmp_path, revision, scenario):
    score = suites.client(scenario, revision, tmp_path)
    assert score.lost == [], score.why(score.lost)
