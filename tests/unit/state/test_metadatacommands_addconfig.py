"""What is given to --add-config is what kafka-configs.sh reads."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.state.metadatacommands import add_config

TEXT = st.text(st.sampled_from("ab[],= \n\t\u00a0"), max_size=6)


def read_by_kafka(argument: str) -> dict[str, str]:
    """The regular expressions of ConfigCommand.parseConfigsToBeAdded."""
    outside = r"(?=[^\]]*(?:\[|$))"
    found = {}
    for setting in re.split("," + outside, argument):
        name, value = re.split(r"[ \t\n\r\f\v]*=[ \t\n\r\f\v]*" + outside, setting)
        found[_trim(name)] = _trim(re.sub(r"\[?\]?", "", value))
    return found


def _trim(text: str) -> str:
    return text.strip("".join(map(chr, range(0x21))))


@given(st.dictionaries(TEXT, TEXT, max_size=4))
def test_kafka_reads_what_was_meant(settings: dict[str, str]) -> None:
    argument, unset = add_config(settings.items())
    set_now = {name: value for name, value in settings.items() if name not in unset}
    assert (read_by_kafka(argument) if set_now else {}) == set_now


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        ("delete", "k=delete"),
        ("", "k="),
        ("0:1,0:2", "k=[0:1,0:2]"),
        ('user="x";', 'k=[user="x";]'),
        ("a],evil=[b,c", ""),
        (" a", ""),
        ("a\n", ""),
    ],
)
def test_values(value: str, argument: str) -> None:
    assert add_config([("k", value)]) == (argument, [] if argument else ["k"])
