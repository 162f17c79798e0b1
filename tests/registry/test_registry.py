"""The mechanism of registries: entries that load late, sections that come with added parts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from pydantic import Field

from omg.config import config_fields, parse_config, resolve
from omg.errors import UserError
from omg.modules.mixers import MIXERS
from omg.registry import Entry, Keys, MixerTraits, Registry, Traits, registry


class MedianKeys(Keys):
    """A section of a part from elsewhere."""

    median_width: int = Field(3, ge=1, description="How many values the median is taken of")


@pytest.fixture
def median() -> Iterator[None]:
    MIXERS.add("median", Entry(lambda sizes, key: None, MixerTraits(sections=(MedianKeys,)), "the median"))
    yield
    MIXERS.remove("median")


def test_entries_load_what_they_name():
    words: Registry[type, Traits] = Registry("word", {"plain": Entry("collections:OrderedDict", Traits(), "a line")})
    assert words["plain"].build.__name__ == "OrderedDict"
    assert (list(words), len(words), "plain" in words, "other" in words) == (["plain"], 1, True, False)
    assert words.get("other") is None
    with pytest.raises(UserError, match=r"^Unknown word 'plane'\. Did you mean 'plain'\? Allowed: plain\.$"):
        words["plane"]


def test_a_part_is_added_once_and_only_added_ones_go(median: None):
    with pytest.raises(UserError, match="there is a mixer 'median' already"):
        MIXERS.add("median", MIXERS["vdn"])
    with pytest.raises(UserError, match="'vdn' was not added"):
        MIXERS.remove("vdn")
    assert registry("mixer") is MIXERS
    with pytest.raises(UserError, match="Unknown kind of part 'mixers'"):
        registry("mixers")


def test_an_added_part_brings_its_keys(median: None):
    config = resolve("qmix", "sc2", {"mixer": "median", "median_width": 5}).config
    assert config.section(MedianKeys).median_width == 5
    assert "median_width" in config_fields()
    with pytest.raises(UserError, match="median_width: got 0"):
        resolve("qmix", "sc2", {"mixer": "median", "median_width": 0})
    assert parse_config(config.model_dump()) == config


def test_keys_go_with_the_part():
    assert "median_width" not in config_fields()
    with pytest.raises(UserError, match="Unknown key 'median_width'"):
        resolve("qmix", "sc2", {"median_width": 5})
    with pytest.raises(UserError, match="MedianKeys: the configuration has no such section"):
        resolve("qmix").config.section(MedianKeys)


def test_a_key_that_there_is_already_is_refused(request: pytest.FixtureRequest):
    class Again(Keys):
        """A section with a known key."""

        lr: float = Field(0.1, description="Learning rate")

    MIXERS.add("again", Entry(lambda sizes, key: None, MixerTraits(sections=(Again,)), "a mixer"))
    request.addfinalizer(lambda: MIXERS.remove("again"))
    with pytest.raises(UserError, match="lr: the section Again has a key that Config has, too"):
        parse_config({"mixer": "again"})
    assert parse_config({}).mixer is None


def test_registries_and_the_configuration_need_no_jax():
    rooms = "omg.config, omg.learners, omg.controllers.scripted, omg.runners, omg.modules.opponent_models"
    code = f"import sys, {rooms}; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
