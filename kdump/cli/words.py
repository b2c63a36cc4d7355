"""Words that people type before they read any help, and what works in their place.

Two tables: a row has the words, and command lines that do what they mean. An unknown option is looked for there first,
then among the options of other commands, then by its spelling; so is an unknown command. No hint is better than a wrong
one. ``tests/cli/test_words.py`` holds all answers against the real commands and options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final

import click

_ALIKE: Final = 0.8
"""How alike a word and a real one must be, see difflib: ``vrify`` and ``verify`` are, ``json`` and ``conf`` are not."""
_SHORTEST_PREFIX: Final = 5
_FILES: Final = "kdump reads the files of a broker, also while it runs; log.dirs in server.properties names them"
_DECODERS: Final = "text, hex, base64, json, int32, int64, float64, uuid or that of a plugin"


class Words:
    """A row: words with one meaning, and what does that.

    Args:
        typed: the words.
        answers: a whole command line, for its command (``{}``: for every one), or an option, for each command that has
            it. Of several the first for the command that was typed counts; without one a command that has such an
            option, or the first command line.
        remark: follows.
    """

    def __init__(self, typed: str, *answers: str, remark: str = "") -> None:
        self.typed = typed
        self.answers = answers
        self.remark = remark


COMMANDS: Final = (
    Words("head first peek sample", "kdump dump --records --limit 10 PATH"),
    Words("tail last", "kdump dump --records --tail 10 PATH"),
    Words(
        "cat print show view read display less more consume consumer records messages record message "
        "payload payloads values keys events data",
        "kdump dump --records PATH",
    ),
    Words("follow watch", "kdump dump --follow PATH"),
    Words(
        "grep search find filter query select match lookup get",
        "kdump dump --value RE PATH",
        "kdump dump --key RE PATH",
    ),
    Words(
        "batches headers decode dumplog dump-log DumpLogSegments kafka-dump-log kafka-dump-log.sh log",
        "kdump dump PATH",
    ),
    Words("fields columns", "kdump dump --fields help"),
    Words("redact anonymize mask scrub", "kdump dump --json --records --redact PATH"),
    Words("ls list dir tree partitions", "kdump stats --by partition PATH"),
    Words("segments files", "kdump stats --by segment PATH"),
    Words("topics topic list-topics", "kdump stats --by topic PATH"),
    Words(
        "info describe summary summarize count counts size sizes du wc stat analyze analyse metrics "
        "profile top usage-by overview report statistics inspect",
        "kdump stats PATH",
    ),
    Words("html chart charts graph ui gui web browse", "kdump stats --html FILE PATH"),
    Words("producers producer", "kdump stats --by producer PATH"),
    Words(
        "compact compaction retention whatif what-if",
        "kdump stats --what-if compaction PATH",
        "kdump stats --what-if retention=7d PATH",
    ),
    Words(
        "timestamps offset-for-time get-offsets getoffsetshell kafka-get-offsets", "kdump stats --offsets-for TIME PATH"
    ),
    Words(
        "check fsck validate lint scan test audit checksum checksums crc integrity doctor health sanity "
        "health-check diagnose detect analyze-damage damage corruption",
        "kdump verify PATH",
    ),
    Words("startup boot predict simulate", "kdump verify --startup PATH"),
    Words("manifest sha256 hash", "kdump verify --manifest FILE PATH"),
    Words(
        "fix salvage recover recovery truncate heal mend clean rescue trim patch",
        "kdump repair PATH",
        "kdump repair --salvage PATH -o DIR",
    ),
    Words("undo rollback revert", "kdump repair --undo MANIFEST"),
    Words("index indexes reindex rebuild rebuild-index rebuild-indexes", "kdump repair --indexes PATH -o DIR"),
    Words("export extract parquet to-parquet save", "kdump convert SRC --to parquet -o DST"),
    Words("json jsonl to-json ndjson", "kdump dump --json --records PATH", "kdump convert SRC --to jsonl -o DST"),
    Words("csv to-csv", "kdump dump --output csv --records PATH", "kdump convert SRC --to csv -o DST"),
    Words("arrow", "kdump dump --output arrow --records PATH"),
    Words("table", "kdump dump --output table --records PATH"),
    Words("pipeline delta iceberg lake etl", "kdump man spark"),
    Words("schemas schema avro protobuf", "kdump dump --schemas PATH PATH"),
    Words("sql spark duckdb", "kdump convert SRC --to parquet -o DST", "kdump man spark"),
    Words("import load ingest", "kdump convert SRC --from jsonl -o DST"),
    Words("compress recompress decompress codec", "kdump convert SRC --codec zstd -o DST"),
    Words(
        "migrate upgrade downgrade transform rewrite downconvert down-convert", "kdump convert SRC --to-magic 1 -o DST"
    ),
    Words("split cut", "kdump convert SRC --split-bytes N -o DST"),
    Words("slice copy subset", "kdump convert SRC --offset A:B -o DST"),
    Words(
        "offsets consumer-groups consumer-offsets groups group lag lags consumers committed kafka-consumer-groups",
        "kdump state PATH",
        "kdump dump --group NAME PATH",
    ),
    Words(
        "brokers broker acls acl metadata cluster users configs config quorum features controller kraft "
        "voters image leaders leader isr replicas metadata-shell kafka-metadata-shell "
        "kafka-metadata-quorum zookeeper zk zk-shell snapshot checkpoint delegation-tokens quotas",
        "kdump state PATH",
    ),
    Words("transactions transaction txns txn", "kdump state PATH", "kdump dump --transactional-id ID PATH"),
    Words("aborted committed-only", "kdump dump --isolation read_committed PATH"),
    Words("history changes timeline events-of log-of", "kdump state --history topic=NAME PATH"),
    Words("tier tiered remote s3 bucket", "kdump verify BUCKET", "kdump verify --tier BUCKET PATH"),
    Words("hexdump hex xxd od bytes raw field", "kdump explain PATH POSITION"),
    Words("why what error", "kdump explain PATH POSITION"),
    Words("compare cmp replicas-diff", "kdump diff PATH PATH"),
    Words("server start listen mock run proxy replay produce publish", "kdump serve PATH"),
    Words("adopt backup move reassign", "kdump restore PATH"),
    Words("version about", "kdump --version"),
    Words("manual docs doc documentation", "kdump man"),
    Words("usage options commands examples", "kdump --help"),
    Words("completions autocomplete", "kdump completion bash"),
)
"""Unknown commands."""

OPTIONS: Final = (
    Words(
        "--json --jsonl --json-lines --ndjson --to-json --as-json --json-output --output-json",
        "--json",
        "kdump dump --json PATH",
    ),
    Words("--csv --to-csv --as-csv", "kdump dump --output csv PATH", "kdump convert SRC --to csv -o DST"),
    Words(
        "--parquet --to-parquet --as-parquet",
        "kdump convert SRC --to parquet -o DST",
        "kdump dump --output parquet PATH",
    ),
    Words("--arrow --feather --ipc", "kdump dump --output arrow PATH"),
    Words("--table --pretty --human --human-readable --pretty-print", "kdump dump --output table PATH"),
    Words("--junit --junit-xml --xml", "kdump verify --output junit PATH", "kdump diff --output junit PATH PATH"),
    Words(
        "--sarif --github --github-actions --gitlab",
        "kdump verify --output sarif PATH",
        "kdump verify --output github PATH",
    ),
    Words("--yaml --yml", "--json", "kdump dump --json PATH"),
    Words(
        "--format --output-format --fmt --report-format --as-format --formatted --output-type",
        "kdump convert SRC --to csv -o DST",
        "kdump dump --output csv PATH",
        "--output",
    ),
    Words(
        "-o --out --output-file --outfile --out-file --output-path --report --write --save",
        "kdump dump --output csv PATH",
        "kdump verify --output junit PATH",
        "kdump convert SRC --to csv -o DST",
        "kdump repair PATH -o DIR",
        "kdump restore PATH -o LOGDIR --topic NAME --metadata DIR",
        "--json",
        "kdump explain PATH POSITION",
    ),
    Words(
        "--output-dir --outdir --out-dir --dest --destination --target --target-dir --to-dir",
        "-o DIR",
        "kdump convert SRC --to parquet -o DST",
    ),
    Words(
        "--columns --column --select --field --cols --show --include",
        "kdump dump --json --records --fields offset,key,value PATH",
    ),
    Words("--template --oneline --one-line", "kdump dump --format STRING PATH"),
    Words(
        "--no-color --no-colour --nocolor --colour --colors --monochrome",
        "--color never",
        "kdump dump --color never PATH",
    ),
    Words("--html-report --report-html --chart --charts", "--html FILE", "kdump stats --html FILE PATH"),
    Words(
        "--quiet -q --silent -s --no-summary --brief --short --no-progress --errors-only --only-errors --summary-only",
        "--quiet",
        "kdump verify --quiet PATH",
    ),
    Words("--from-beginning --beginning", "kdump dump --records PATH", remark="it begins at the first record"),
    Words(
        "--from-offset --start-offset --offset-start --begin-offset --min-offset --starting-offset "
        "--first-offset --start-at --from --skip --seek --base-offset --offset-from",
        "kdump explain PATH --offset N",
        "--offset A:",
        "kdump dump --offset A: PATH",
    ),
    Words(
        "--to-offset --end-offset --stop-offset --max-offset --ending-offset --last-offset --offset-end "
        "--offset-to --until-offset --stop-at",
        "kdump explain PATH --offset N",
        "--offset :B",
        "kdump dump --offset :B PATH",
        "kdump serve --until-offset NAME-0=B PATH",
    ),
    Words(
        "--offsets --offset-range --range --offset --at --position",
        "kdump explain PATH --offset N",
        "--offset A:B",
        "kdump dump --offset A:B PATH",
        "kdump state --between-offsets A:B PATH",
    ),
    Words(
        "--max-messages --max-records --max-count --max --num --count --lines --rows --head --take --top "
        "--first --limit -n -l -c --num-records --num-messages --records-limit --messages",
        "kdump dump --limit N PATH",
    ),
    Words("--last --tail-lines", "kdump dump --tail N PATH"),
    Words("--watch --live", "kdump dump --follow PATH"),
    Words(
        "--start-time --from-time --after --from-timestamp --start --from-date --begin --start-date "
        "--newer --newer-than --min-timestamp --starting-timestamp --start-timestamp --time-from",
        "--since TIME",
        "kdump dump --since TIME PATH",
        "kdump state --between T1.. PATH",
    ),
    Words(
        "--end-time --to-time --before --to-timestamp --end --to-date --end-date --older --older-than "
        "--max-timestamp --end-timestamp --time-to",
        "--until TIME",
        "kdump dump --until TIME PATH",
        "kdump state --between ..T2 PATH",
    ),
    Words(
        "--timestamp --timestamps --date --day --time-range --between --when --time",
        "--time T1..T2",
        "kdump dump --time T1..T2 PATH",
        "kdump state --between T1..T2 PATH",
    ),
    Words(
        "--grep --search --find --contains --match --filter --pattern --regex --regexp --where --query -e "
        "-g --value-filter --value-regex --body-filter --value-contains --contains-value",
        "kdump dump --value RE PATH",
    ),
    Words(
        "--key-filter --key-regex --key-pattern --by-key --key-contains --contains-key -k", "kdump dump --key RE PATH"
    ),
    Words(
        "--print-key --print-keys --show-key --show-keys --key-only --keys --with-keys --print-value "
        "--print-values --show-value --show-values --print-headers --show-headers --print-timestamp "
        "--show-timestamp --print-offset --print-partition --with-headers --with-values --property "
        "--formatter --separator --delimiter --key-separator --keys-only --values-only --values "
        "--no-headers --no-header --with-key --with-value --include-headers --include-key",
        "kdump dump --format STRING PATH",
        "kdump dump --json --records PATH",
        remark=r"such as '%o %k %v\n'",
    ),
    Words(
        "--print --payload --payloads --data --contents --content --body --show-data --show-records "
        "--record --message --print-records --print-messages --show-messages --verbose-records",
        "kdump dump --records PATH",
    ),
    Words(
        "--key-deserializer --key-format --key-type --decode-key --key-schema --key-encoding",
        "kdump dump --key-decoder NAME PATH",
        remark=_DECODERS,
    ),
    Words(
        "--value-deserializer --value-format --value-type --deserializer --decode-value "
        "--decoder --value-encoding --encoding --utf8 --utf-8 --hex --base64",
        "kdump dump --value-decoder NAME PATH",
        remark=_DECODERS,
    ),
    Words(
        "--avro --proto --protobuf --schema --schema-registry --json-schema --schema-dir --schema-file --registry",
        "kdump stats --by schema --schemas PATH PATH",
        "--schemas PATH",
        "kdump dump --schemas PATH PATH",
    ),
    Words("--group-id --consumer-group --groups --consumer", "kdump dump --group NAME PATH", "kdump state PATH"),
    Words(
        "--lag --committed-offsets --consumer-offsets --list-groups --describe --metadata-file --cluster-state "
        "--consumer-groups --list-offsets",
        "kdump state PATH",
    ),
    Words("--pid --producer", "kdump dump --producer-id N PATH"),
    Words("--txn-id --transaction --transaction-id --txnid --tx", "kdump dump --transactional-id ID PATH"),
    Words(
        "--committed --read-committed --isolation-level --committed-only --no-aborted --skip-aborted",
        "--isolation read_committed",
        "kdump dump --isolation read_committed PATH",
    ),
    Words("--null-values --deletes --deleted --only-tombstones --nulls", "kdump dump --tombstones PATH"),
    Words("--control-records --markers --show-control", "kdump dump --control PATH"),
    Words("--anonymize --mask --scrub --hide-values --redact-values", "kdump dump --json --records --redact PATH"),
    Words(
        "--bootstrap-server --bootstrap-servers --broker-list --brokers -b --command-config "
        "--consumer-config --consumer.config --producer-config --connect --server --url",
        "kdump dump /var/lib/kafka",
        "kdump serve --listen HOST:PORT PATH",
        "kdump convert LOGDIR --to jsonl -o DST",
        "kdump diff LOGDIR LOGDIR",
        "kdump explain PATH POSITION",
        "kdump {} /var/lib/kafka",
        remark=_FILES,
    ),
    Words("--zookeeper --zk --zk-connect", "kdump state version-2", remark=_FILES),
    Words(
        "--topic --topics -t --whitelist --topic-name",
        "--topic NAME",
        "kdump dump --topic NAME LOGDIR",
        "kdump convert LOGDIR/NAME-0 --to jsonl -o DST",
    ),
    Words(
        "--partition --partitions -p --partition-id --part",
        "--partition N",
        "kdump dump --topic NAME --partition N LOGDIR",
        "kdump state --history partition=NAME-0 PATH",
        "kdump convert LOGDIR/NAME-0 --to jsonl -o DST",
    ),
    Words(
        "--deep --full --thorough --deep-scan --decompress --iterate",
        "kdump dump --deep-iteration PATH",
        "kdump verify --deep PATH",
    ),
    Words(
        "--all --all-partitions --everything --all-topics --include-all -a --siblings "
        "--checkpoints --snapshots --with-indexes",
        "--all-files",
        "kdump convert LOGDIR --to parquet -o DST",
        "kdump diff LOGDIR LOGDIR",
        "kdump {} LOGDIR",
    ),
    Words(
        "--recursive --recurse -r -R",
        "kdump convert LOGDIR --to parquet -o DST",
        "kdump diff LOGDIR LOGDIR",
        "kdump {} LOGDIR",
        remark="a directory is read with all partitions in it",
    ),
    Words(
        "--directory --dir -d --path --log-dir --log-dirs --data-dir --logdir "
        "--input -i --file --files --input-file --segment --in --log --src --source",
        "kdump convert SRC --to parquet -o DST",
        "kdump diff PATH PATH",
        "kdump explain PATH POSITION",
        "kdump {} PATH",
    ),
    Words(
        "--threads --workers --parallel --parallelism --num-workers --concurrency --processes --nproc "
        "--cores -P --jobs -j",
        "--jobs N",
        "kdump verify --jobs N PATH",
    ),
    Words(
        "--force -y --yes --fix --repair --auto-fix --autofix --write-changes --apply --execute --inplace "
        "--assume-yes --truncate --delete --clean --commit --salvage",
        "kdump repair --in-place PATH",
        "kdump restore PATH -o LOGDIR --topic NAME --metadata DIR",
        "--overwrite",
        remark="kdump repair alone prints the plan",
    ),
    Words("--backup --keep-backup --save-backup --no-backup", "kdump repair --in-place --backup-dir DIR PATH"),
    Words(
        "--plan --what-if --simulate --preview --dryrun --noop --dry --no-op --dry-run --check-only --pretend",
        "--dry-run",
        "--startup",
        "kdump repair --dry-run PATH",
    ),
    Words("--debug --log-level --trace --verbosity --loglevel --info", "--verbose", "kdump dump --verbose PATH"),
    Words("--stacktrace --stack-trace --backtrace", "--traceback", "kdump dump --traceback PATH"),
    Words(
        "--check --validate --checksum --checksums --crc --verify-crc --check-crcs --verify --fsck "
        "--integrity --check-crc --validate-crc --sanity --sanity-check",
        "kdump verify PATH",
    ),
    Words(
        "--fast --shallow --headers-only --header-only --skip-records --no-decompress",
        "--quick",
        "kdump verify --quick PATH",
    ),
    Words("--summary --stats --statistics --histogram --totals --size --sizes --counts", "kdump stats PATH"),
    Words("--list -L --ls --list-topics", "kdump stats --by topic LOGDIR"),
    Words(
        "--group-by --by-topic --by-partition --per-topic --per-partition --aggregate --breakdown --sort --sort-by",
        "--by topic",
        "kdump stats --by topic LOGDIR",
    ),
    Words(
        "--ignore-errors --continue --keep-going --skip-errors --continue-on-error --skip-corrupt "
        "--skip-damaged --ignore-corruption --skip-bad --tolerant --lenient --ignore-crc",
        "--resync",
        "--skip-damaged",
        "--salvage",
        "kdump dump --resync PATH",
    ),
    Words(
        "--exit-code --fail-on --warnings-as-errors --werror --fail-on-warning --error-on-warning --pedantic",
        "--strict",
        "kdump verify --strict PATH",
    ),
    Words("--compress --compression --compression-type --compression-codec", "kdump convert SRC --codec zstd -o DST"),
    Words(
        "--magic --message-format --target-version --message-version --format-version",
        "kdump convert SRC --to-magic 1 -o DST",
    ),
    Words("--to --as --into --export --convert", "kdump convert SRC --to parquet -o DST"),
    Words(
        "--index --indexes --rebuild-index --rebuild-indexes --reindex",
        "kdump repair --indexes PATH",
        "kdump dump --all-files PATH",
    ),
    Words(
        "--bandwidth --throttle --rate-limit --limit-rate --max-rate --io-limit",
        "--rate BYTES",
        "kdump dump --rate BYTES PATH",
    ),
    Words("--nice --low-priority --ionice --background", "--idle", "kdump dump --idle PATH"),
    Words(
        "--spark --distributed",
        "kdump dump --json --engine spark PATH",
        "--engine spark",
        "kdump stats --engine spark PATH",
    ),
    Words(
        "--kafka-version --version-of --compat --kafka --compatibility",
        "kdump verify --startup --broker-version 4.3 PATH",
        "kdump stats --what-if compaction --broker-version 4.3 PATH",
        "--dialect 3.9",
        "--broker-version 4.3",
    ),
    Words("--s3 --endpoint --bucket --remote --tiered", "--tier BUCKET", "kdump dump --tier BUCKET PATH"),
    Words(
        "--port --host --bind --address --listen-address --listener --listeners", "kdump serve --listen HOST:PORT PATH"
    ),
    Words("--user --username --password --security-protocol", "kdump serve --sasl USER:PASSWORDFILE PATH"),
    Words(
        "--replica --from-replica --other --against --compare --compare-to --with",
        "kdump diff PATH PATH",
        "kdump repair --salvage --from REPLICA_DIR PATH",
    ),
    Words("--explain --hexdump --raw -x", "kdump explain PATH POSITION"),
    Words("--man --manual", "kdump man dump"),
    Words("-V --version-info", "kdump --version"),
    Words("--help-all --usage -? -H --examples", "kdump --help"),
    Words("--undo-repair --rollback --revert", "kdump repair --undo MANIFEST"),
    Words("--print-batches --batch --batches-only", "kdump dump --batches --json PATH"),
    Words("--segments --per-segment --by-segment", "--by segment", "kdump stats --by segment PATH"),
    Words("--leader-epoch --epochs", "kdump stats --by leader-epoch PATH"),
    Words("--compact --pretty-json --minify", "--json", "kdump dump --json PATH"),
    Words("--why --what-is-wrong", "kdump explain PATH POSITION"),
)
"""Unknown options."""


def command_hint(typed: str, commands: Sequence[str]) -> str:
    """What works in place of an unknown command; empty where nobody knows. ``commands``: the real ones."""
    word = typed.casefold().replace("_", "-")
    if word in commands:
        return f"Use: kdump {word}"
    row = _row(COMMANDS, word)
    if row is not None:
        return f"Use: {', or: '.join(row.answers)}"
    alike = _alike(word, commands)
    return f"Did you mean 'kdump {alike}'?" if alike else ""


def option_hint(typed: str, context: click.Context) -> str:
    """What works in place of an unknown option of the command of ``context``; empty where nobody knows."""
    own = option_names(context.command)
    is_program = isinstance(context.command, click.Group)
    word = typed if len(typed) == 2 else f"--{typed.lstrip('-').casefold().replace('_', '-')}"
    if word in own:
        return f"Use: {word}"
    others = list(_others(word, context))
    if others and is_program:
        return f"It follows the command: kdump {others[0]} {word}"
    row = _row(OPTIONS, word)
    answer = None if row is None else own_answer(row, context.info_name or "", own)
    if answer == "--output":
        answer += f" {'|'.join(_outputs(context.command))}"
    if answer is None and others:
        return f"Use: kdump {f' {word}, or: kdump '.join(others)} {word}"
    if row is not None:
        answer = answer or next(one for one in row.answers if one.startswith("kdump")).format("dump")
        return f"Use: {answer}" + (f" ({row.remark})" if row.remark else "")
    alike = _alike(word, own)
    return f"Did you mean '{alike}'?" if alike else ""


def output_hint(word: str, context: click.Context) -> str:
    """What writes the format that is called so, as in ``dump -f csv``; empty where it is no format."""
    wanted = {"json": "jsonl"}.get(word, word)
    for name, command in (context.info_name, context.command), *_commands(context):
        if wanted in _outputs(command):
            return f"Use: kdump {name} --output {wanted} PATH"
    return ""


def one_dash(arguments: Iterable[str], context: click.Context) -> str | None:
    """The first argument that is a long option with one dash, as in ``-json``."""
    own = option_names(context.command)
    return next((one for one in arguments if re.match("-[a-z]{2}", one) and f"-{one.partition('=')[0]}" in own), None)


def _row(rows: Iterable[Words], word: str) -> Words | None:
    return next((row for row in rows if word in row.typed.split()), None)


def own_answer(row: Words, command: str, own: Sequence[str]) -> str | None:
    """The first answer for the command."""
    for answer in row.answers:
        program, _, rest = answer.partition(" ")
        if program != "kdump":
            if program in own:
                return answer
        elif rest.partition(" ")[0] in (command, "{}"):
            return answer.format(command)
    return None


def _outputs(command: click.Command) -> Sequence[str]:
    """What ``--output`` of a command takes."""
    types = (one.type for one in command.params if "--output" in one.opts)
    return next((type.choices for type in types if isinstance(type, click.Choice)), ())


def option_names(command: click.Command) -> list[str]:
    """The options of a command, as they are written."""
    parameters = (one for one in command.params if isinstance(one, click.Option) and not one.hidden)
    return [name for one in parameters for name in (*one.opts, *one.secondary_opts)]


def _others(word: str, context: click.Context) -> Iterator[str]:
    """The commands that have an option."""
    for name, command in _commands(context):
        if command is not context.command and word in option_names(command):
            yield name


def _commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """All commands, with their names."""
    root = context.find_root()
    assert isinstance(root.command, click.Group), "commands are in a group"
    for name in root.command.list_commands(root):
        command = root.command.get_command(root, name)
        if command is not None:
            yield name, command


def _alike(word: str, real: Iterable[str]) -> str | None:
    """The real word that is meant, by its spelling."""
    names = list(real)
    longer = [name for name in names if len(word) >= _SHORTEST_PREFIX and name.startswith(word)]
    if len(longer) == 1:
        return longer[0]
    by_letters = {name.lstrip("-"): name for name in names}
    found = get_close_matches(word.lstrip("-"), by_letters, 1, _ALIKE)
    return by_letters[found[0]] if found else None
