"""The commands that make the metadata again."""

from __future__ import annotations

import subprocess

from kdump.kafka.image.image import MetadataImage
from kdump.kafka.image.topics import TopicImage
from kdump.state.metadatacommands import metadata_commands
from kdump.state.metadatarows import StateSelection

HOSTILE = "x\necho injected\n$(echo injected)`echo injected`'\";echo injected\r"


def test_no_name_in_the_metadata_is_a_command_itself() -> None:
    image = MetadataImage()
    image.topics.put(TopicImage(HOSTILE, "AAAAAAAAAAAAAAAAAAAAAA"))
    image.tokens["id"] = {"owner": f"User:{HOSTILE}"}
    image.features[HOSTILE] = 1
    image.configs[2, HOSTILE] = {HOSTILE: HOSTILE, "k": HOSTILE.strip()}
    image.quotas[("user", HOSTILE),] = {HOSTILE: 1.0, "k": 1.0}
    lines = list(metadata_commands(image, StateSelection()))
    assert [line[0] for line in lines] == ["k", "#", "k", "#", "k", "#", "#"]
    # A function stands for each of Kafka's tools.
    functions = "".join(f"{tool}() {{ :; }}\n" for tool in ("kafka-features.sh", "kafka-configs.sh"))
    run = subprocess.run(["bash"], input=functions + "\n".join(lines), capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("", "")
