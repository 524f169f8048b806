"""The one sentence for each way that settings of `training.parallel` can be wrong."""

import pytest

from keisei.config_loading import load_config

A_COUNT = "a whole number, at least 1, at most 1024, or auto"
A_PROFILE = "a mapping with any of random_start_share, opponent_share, temperature"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("num_workers=0", f"num_workers is 0, but must be {A_COUNT}"),
        ("num_workers=1025", f"num_workers is 1025, but must be {A_COUNT}"),
        ("num_workers=2.0", f"num_workers is 2.0, but must be {A_COUNT}"),
        ("num_workers=true", f"num_workers is true, but must be {A_COUNT}"),
        ("num_workers=many", f"num_workers is 'many', but must be {A_COUNT}"),
        ("num_workers=", f"num_workers is empty, but must be {A_COUNT}"),
        ("num_learners={a: 1}", f"num_learners is {{'a': 1}}, but must be {A_COUNT}"),
        (
            "games_per_worker=0",
            "games_per_worker is 0, but must be a whole number, at least 1, or null",
        ),
        (
            "games_per_worker=auto",
            "games_per_worker is 'auto', but must be a whole number, at least 1, or null",
        ),
        (
            "rollout_length=[1]",
            "rollout_length is [1], but must be a whole number, at least 1, at most 4096, or null",
        ),
        ("mode=null", "mode is empty, but must be one of sync, async"),
        ("mode={sync: 1}", "mode is {'sync': 1}, but must be one of sync, async"),
        ("max_restarts=null", "max_restarts is empty, but must be a whole number, at least 0"),
        ("max_restarts=-1", "max_restarts is -1, but must be at least 0"),
        (
            "num_worker=3",
            "num_worker is not a setting; did you mean training.parallel.num_workers?",
        ),
        (
            "num_workers.x=3",
            "num_workers.x is not a setting; did you mean training.parallel.num_workers?",
        ),
        ("worker_profiles=", f"worker_profiles is empty, but must be a list, each {A_PROFILE}"),
        (
            "worker_profiles={temperature: 2}",
            f"worker_profiles is {{'temperature': 2}}, but must be a list, each {A_PROFILE}",
        ),
        ("worker_profiles=[{}, 4]", f"worker_profiles[1] is 4, but must be {A_PROFILE}"),
        ("worker_profiles=[null]", f"worker_profiles[0] is empty, but must be {A_PROFILE}"),
        (
            "worker_profiles=[{}, {temprature: 2}]",
            "worker_profiles[1].temprature is not a setting; did you mean temperature?",
        ),
        (
            "worker_profiles=[{heat: 2}]",
            "worker_profiles[0].heat is not a setting; "
            "known are random_start_share, opponent_share, temperature",
        ),
        (
            "worker_profiles=[{temperature: 0}]",
            "worker_profiles[0].temperature is 0, but must be above 0",
        ),
        (
            "worker_profiles=[{temperature: null}]",
            "worker_profiles[0].temperature is empty, but must be a number, above 0, at most 10",
        ),
        (
            "worker_profiles=[{opponent_share: {a: 1}}]",
            "worker_profiles[0].opponent_share is {'a': 1}, "
            "but must be a number, at least 0, at most 1, or null",
        ),
        (
            "worker_profiles=[{opponent_share: 2}, {temprature: 2, temperature: hot}]",
            "worker_profiles[0].opponent_share is 2, "
            "but must be a number, at least 0, at most 1, or null (and 2 more)",
        ),
    ],
)
def test_a_wrong_parallel_setting_gets_the_same_sentence_from_a_file_and_an_override(
    refusal, wrong, sentence
):
    sentence = f"training.parallel.{sentence}"
    assert refusal("", f"training.parallel.{wrong}") == sentence
    key, _, value = wrong.partition("=")
    if "." not in key:
        assert refusal(f"training:\n  parallel:\n    {key}: {value}\n") == sentence


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "training.parallel=3",
            "training.parallel is 3, but must be a section with settings like "
            "training.parallel.enabled",
        ),
        (
            "training={parallel: }",
            "training.parallel is empty, but must be a section with settings like "
            "training.parallel.enabled",
        ),
        (
            "training.num_workers=3",
            "training.num_workers is not a setting; did you mean training.parallel.num_workers?",
        ),
        (
            "training.paralel.num_workers=3",
            "training.paralel.num_workers is not a setting; "
            "did you mean training.parallel.num_workers?",
        ),
        (
            "parallel.num_workers=3",
            "parallel.num_workers is not a setting; did you mean training.parallel.num_workers?",
        ),
        (
            "training.qqq=3",
            "training.qqq is not a setting; known are training.parallel, training.total_steps, "
            "training.rollout_length, training.threads, training.compile, training.cuda_graphs, "
            "training.mixed_precision, training.collector",
        ),
        (
            "training.parallel.worker_profiles[0].temperature=2",
            "training.parallel.worker_profiles[0].temperature is not a setting; "
            "did you mean training.parallel.worker_profiles?",
        ),
        (
            "training.parallel.worker_profiles=[{}, {temperature: 1, temperature: 2}]",
            "'training.parallel.worker_profiles=[{}, {temperature: 1, temperature: 2}]': "
            "training.parallel.worker_profiles[1].temperature is given twice",
        ),
    ],
)
def test_a_wrong_override_of_a_section_in_a_section_gets_one_sentence(refusal, override, sentence):
    assert refusal("", override) == sentence


def test_in_async_mode_the_policy_lag_must_span_the_updates_between_publications(
    refusal, config_file
):
    text = "training:\n  parallel:\n    max_policy_lag: 1\n    model_sync_interval: 3\n"
    assert refusal(text) == (
        "training.parallel.max_policy_lag is 1, but must be at least model_sync_interval (3) "
        "in async mode"
    )
    assert refusal(text, "seed=-1") == "seed is -1, but must be at least 0 (and 1 more)"
    for remedy in ("max_policy_lag=3", "model_sync_interval=1"):
        load_config(config_file(text), [f"training.parallel.{remedy}"])


def test_in_sync_mode_weights_are_published_after_every_update(refusal):
    text = "training:\n  parallel:\n    mode: sync\n    model_sync_interval: 3\n"
    assert refusal(text) == (
        "training.parallel.model_sync_interval is 3, but must be 1 in sync mode, where every "
        "rollout is played with the newest weights"
    )


def test_there_must_not_be_more_profiles_than_workers(refusal, config_file):
    text = "training:\n  parallel:\n    num_workers: 2\n    worker_profiles: [{}, {}, {}]\n"
    assert refusal(text) == (
        "training.parallel.worker_profiles has 3 entries, but must have at most num_workers (2)"
    )
    for remedy in ("num_workers=3", "num_workers=auto", "worker_profiles=[{}, {}]"):
        load_config(config_file(text), [f"training.parallel.{remedy}"])
