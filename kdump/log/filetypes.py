"""The type of a file that has the name of a log but is none: compressed, encrypted, an archive, a text, a database.

This is needed after damage only. A log begins with the 8 bytes of an offset, whose first is 0 in any real partition, so
no undamaged log begins with one of these signatures. A file with valid entries is taken for a damaged log, unless it is
another type from its first byte to its last: an archive that holds logs unchanged, or data that a compressor stored as
they were.

Sources: the magic numbers of the formats (file(1)); tar: POSIX ustar; zip: APPNOTE 4.3; 7z: 7zFormat.txt; OpenPGP: RFC
9580 section 5.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from kdump.codes import Codes, Finding, KdumpError
from kdump.log.files import absolute
from kdump.log.heads import read_head
from kdump.log.named import STDIN
from kdump.log.names import is_uri
from kdump.log.source import Source

_HEAD_SIZE: Final = 4096
_BLOCK: Final = 512
"""Bytes of a header of tar; the sizes of its members are rounded up to them."""
_PIECE: Final = 1 << 10
"""Compressed bytes at a time. It bounds what comes out of them (32 MiB for zstd; see ``_PART``)."""
_PART: Final = 1 << 20
"""Most bytes of output at a time of decoders that can hold back the rest: for bzip2, 1 KiB becomes 1 GiB."""
_LONGEST_LOOK: Final = 1 << 20
"""Compressed bytes from which some output must come: more than the largest block of zstd, gzip, xz and bzip2."""
_LARGEST_WINDOW: Final = 128 << 20
"""Most memory of a decoder: zstd's own limit. xz -9 needs 65 MiB; a file may ask for 4 GiB."""
_MOST_OUTPUT: Final = 1 << 32
_FREE_OUTPUT: Final = 16 << 20
_OUTPUT_PER_BYTE: Final = 64
"""Data count as whole after ``_MOST_OUTPUT`` bytes of output, or when they are a bomb, which is a compressed file too:
after ``_FREE_OUTPUT`` bytes and as many more for each byte of the file."""


class FileType(NamedTuple):
    """A type of file.

    ``name``: with its article. ``command``: a shell command that shows what is in it, ``{}`` for the path, or ''.
    ``covers``: the whole file has this type, from its first byte to its last; None: unknown. ``decoder``: makes a
    decoder of compressed data, an object like that of ``zlib.decompressobj()``.
    """

    name: str
    command: str = ""
    covers: Callable[[Source], bool] | None = None
    decoder: Callable[[], Any] | None = None

    def message(self, path: str) -> str:
        """One line for people: what the file is, and what to do."""
        if not self.command:
            return f"{self.name}, not itself a Kafka log; put the file that belongs here in its place"
        # The command cannot read a pipe or a URI by its name. Other processes know the absolute path only.
        shown = "FILE" if path == STDIN or is_uri(path) else shlex.quote(absolute(path))
        return f"{self.name}, not itself a Kafka log; to look into it: {self.command.replace('{}', shown)}"

    def finding(self, path: str, length: int | None) -> Finding:
        """The message as a finding about the whole file, or about the first ``length`` bytes of it."""
        return Finding(Codes.FOREIGN_FILE, self.message(path), 0, length)

    def error(self, path: str) -> KdumpError:
        """The message as an error."""
        return KdumpError(Codes.FOREIGN_FILE, self.message(path), path=path)


def identify(source: Source, *, holds_entries: bool | None = None) -> FileType | None:
    """The type of a file whose first entry is not valid; None for a damaged log and for an unknown type.

    Args:
        source: the file. Of a stream, the part that was read already.
        holds_entries: there are valid entries in it; None: not known. A stream is then taken to have none.
    """
    try:
        found = _by_signature(source.head(_HEAD_SIZE))
        if found is None or (source.size is None and holds_entries):
            return None
        first = None if holds_entries is False or source.size is None else _first_valid(source)
        if first is not None and (first == 0 or found.covers is None or not found.covers(source)):
            return None
        return found if found.decoder is None else _with_contents(found, found.decoder, source.head(_LONGEST_LOOK))
    except KdumpError:
        # Unreadable bytes are damage of another kind.
        return None


def _by_signature(head: bytes) -> FileType | None:
    found = next((found for signature, found in _SIGNATURES if head.startswith(signature)), None)
    return found or next((found for applies, found in _PATTERNS if applies(head)), None)


def _first_valid(source: Source) -> int | None:
    """Where the first entry with a right CRC begins."""
    from kdump.log.resync import CheckedChunk, ResyncWalk

    for item in ResyncWalk(source).items():
        if isinstance(item, CheckedChunk):
            number = next((each for each in range(len(item.starts)) if each not in item.damaged), None)
            if number is not None:
                return item.position + item.starts[number]
    return None


def _with_contents(found: FileType, decoder: Callable[[], Any], head: bytes) -> FileType:
    """The type of compressed data, with a word about what is in them."""
    inner = b""
    for part in _decoded(decoder, (head[at : at + _PIECE] for at in range(0, len(head), _PIECE))):
        inner += part or b""
        if part is None or len(inner) >= _HEAD_SIZE:
            break
    inside = _by_signature(inner[:_HEAD_SIZE])
    if inside is not None:
        command = inside.command if inside is _TAR else found.command.partition(" |")[0]
        return found._replace(name=f"{found.name} with {inside.name} in it", command=command)
    entry = read_head(inner, 0, len(inner), 0)
    return found._replace(name=f"{found.name} with a Kafka log in it") if entry and entry.is_plausible else found


def _decoded(make: Callable[[], Any], pieces: Iterator[bytes]) -> Iterator[bytes | None]:
    """What comes out of the members of compressed data, which follow one another.

    None at the end: they are broken there, or the last one is cut.
    """
    decoder = make()
    for piece in pieces:
        rest = piece
        while rest or _holds_back(decoder):
            if decoder.eof:
                decoder = make()
            try:
                yield decoder.decompress(rest, _PART) if hasattr(decoder, "needs_input") else decoder.decompress(rest)
            except Exception:
                # Each library has its own errors; some are plain RuntimeErrors.
                yield None
                return
            rest = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        yield None


def _holds_back(decoder: Any) -> bool:
    """More output can come without more input."""
    return not decoder.eof and not getattr(decoder, "needs_input", True)


def _gzip() -> Any:
    import zlib

    return zlib.decompressobj(wbits=31)


def _bzip2() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_LARGEST_WINDOW)


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


def _lz4() -> Any:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor()


def _compressed(name: str, program: str, decoder: Callable[[], Any]) -> FileType:
    def covers(source: Source) -> bool:
        size = source.size or 0
        most = min(_MOST_OUTPUT, _FREE_OUTPUT + _OUTPUT_PER_BYTE * size)
        total = 0
        for part in _decoded(decoder, (source.read(at, _PIECE) for at in range(0, size, _PIECE))):
            if part is None:
                return False
            total += len(part)
            if total > most:
                break
        return True

    return FileType(name, f"{program} -dc {{}} | kdump dump -", covers, decoder)


def _is_tar_header(head: bytes) -> bool:
    """The checksum of a header is right; old archives have no other sign."""
    block = head[:_BLOCK]
    if len(block) < _BLOCK or not re.fullmatch(rb" *[0-7]+[ \0]+", block[148:156]):
        return False
    return int(block[148:156].strip(b" \0"), 8) == sum(block[:148]) + 8 * ord(" ") + sum(block[156:_BLOCK])


def _is_tar(source: Source) -> bool:
    """One member follows the other up to the end mark, or to the end of the file."""
    position, size = 0, source.size or 0
    while position < size:
        block = source.read(position, _BLOCK)
        if not any(block):
            return True
        if not _is_tar_header(block):
            return False
        field = block[124:136]
        octal = field.strip(b" \0")
        if field[0] & 0x80:
            length = int.from_bytes(field[1:], "big")
        elif octal and not octal.strip(b"01234567"):
            length = int(octal, 8)
        else:
            length = 0
        position += _BLOCK + -(-length // _BLOCK) * _BLOCK
    return True


def _is_zip(source: Source) -> bool:
    """The end of the central directory is the end of the file, apart from a comment."""
    size = source.size or 0
    start = max(0, size - (1 << 16) - 22)
    tail = source.read(start, size - start)
    at = tail.rfind(b"PK\5\6")
    return at >= 0 and len(tail) - at == 22 + int.from_bytes(tail[at + 20 : at + 22], "little")


def _is_7z(source: Source) -> bool:
    """The header at the start leads to the header at the end, which ends with the file."""
    offset, length = (int.from_bytes(source.read(at, 8), "little") for at in (12, 20))
    return 32 + offset + length == source.size


def _is_parquet(source: Source) -> bool:
    size = source.size or 0
    return size >= 12 and source.read(size - 4, 4) == b"PAR1"


def _is_openpgp(head: bytes) -> bool:
    """It begins with a session key for a recipient or a passphrase, or with a compressed packet of gpg."""
    if len(head) < _BLOCK_OF_PGP:
        return False
    first, second = head[0], head[1]
    if first == 0xA3:
        return second in (1, 2, 3)
    if first & 0xC0 == 0xC0:
        tag, start = first & 0x3F, 2 if second < 192 else 3
    else:
        tag, start = first >> 2 & 0x0F, 2 + (first & 3) if first & 0x83 in (0x80, 0x81) else 0
    body = head[start:]
    if not start or tag not in (1, 3):
        return False
    # A version, then 8 bytes of a key id and an algorithm, or a cipher (AES, Twofish, Camellia and older ones).
    return body[0] in (3, 6) and body[9] in _PGP_ALGORITHMS if tag == 1 else body[0] in (4, 5, 6) and body[1] <= 13


_BLOCK_OF_PGP: Final = 16
_PGP_ALGORITHMS: Final = frozenset({1, 2, 3, 16, 18, 20, 25, 26})


def _is_text(head: bytes, encoding: str = "utf-8") -> bool:
    try:
        # The last character may be cut.
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return False
    return bool(text) and not _NO_TEXT.search(text)


_NO_TEXT: Final = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffe\uffff]")
"""Characters that no text has, apart from escapes of colours."""


def _is_json(head: bytes) -> bool:
    return re.match(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*[\"}]|\[\s*[\[\]{\"\d-])", head) is not None and _is_text(head)


def _is_utf16(head: bytes) -> bool:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return len(head) > 2 and _is_text(head, "utf-16")
    if len(head) < _HEAD_OF_UTF16:
        return False
    # UTF-16 without a mark: every other byte is an ASCII character.
    return any(
        not any(head[zeros::2]) and _is_text(head[1 - zeros :: 2], "ascii") and not _is_text(head) for zeros in (0, 1)
    )


_HEAD_OF_UTF16: Final = 16


def _at_60(head: bytes) -> int:
    """Where the header of a Windows program lies, according to its older header."""
    return int.from_bytes(head[60:64], "little")


_GZIP: Final = _compressed("a gzip file", "gzip", _gzip)
_ZSTD: Final = _compressed("a zstd file", "zstd", _zstd)
_TAR: Final = FileType("a tar archive", "tar -xf {}", _is_tar)
_ZIP: Final = FileType("a zip archive", "unzip {}", _is_zip)
_PGP: Final = FileType("a file encrypted with OpenPGP", "gpg -d {} | kdump dump -")
_AGE: Final = FileType("a file encrypted with age", "age -d -i KEY {} | kdump dump -")
_OPENSSL: Final = FileType("a file encrypted with openssl", "openssl enc -d -CIPHER -in {} | kdump dump -")
_RPM: Final = FileType("an RPM package")

_SIGNATURES: Final[tuple[tuple[bytes, FileType], ...]] = (
    (b"\x1f\x8b\x08", _GZIP),
    (b"\x28\xb5\x2f\xfd", _ZSTD),
    (b"\xfd7zXZ\0", _compressed("an xz file", "xz", _xz)),
    (b"\x04\x22\x4d\x18", _compressed("an lz4 file", "lz4", _lz4)),
    (b"\x5d\0\0", _compressed("an lzma file", "xz", _xz)),
    (b"\x1f\x9d", FileType("a file of compress", "gzip -dc {} | kdump dump -")),
    (b"\x89LZO\0\r\n\x1a\n", FileType("an lzop file", "lzop -dc {} | kdump dump -")),
    (b"LZIP", FileType("an lzip file", "lzip -dc {} | kdump dump -")),
    (b"\xff\x06\0\0sNaPpY", FileType("a snappy file", "snzip -dc {} | kdump dump -")),
    (b"\x82SNAPPY\0", FileType("a file of snappy-java")),
    (b"PK\3\4", _ZIP),
    (b"PK\5\6", _ZIP),
    (b"7z\xbc\xaf\x27\x1c", FileType("a 7z archive", "7z x {}", _is_7z)),
    (b"Rar!\x1a\7", FileType("a rar archive", "unrar x {}")),
    (b"!<arch>\n", FileType("an ar archive", "ar x {}")),
    (b"070701", FileType("a cpio archive", "cpio -i < {}")),
    (b"070707", FileType("a cpio archive", "cpio -i < {}")),
    (b"\xed\xab\xee\xdb", _RPM),
    (b"Salted__", _OPENSSL),
    (b"U2FsdGVkX1", _OPENSSL._replace(command="openssl enc -d -a -CIPHER -in {} | kdump dump -")),
    (b"age-encryption.org/v1\n", _AGE),
    (b"-----BEGIN AGE ENCRYPTED FILE-----", _AGE),
    (b"-----BEGIN PGP MESSAGE-----", _PGP),
    (b"$ANSIBLE_VAULT;", FileType("a file encrypted with ansible-vault", "ansible-vault view {}")),
    (b"\0GITCRYPT\0", FileType("a file encrypted with git-crypt", "git-crypt unlock")),
    (b"LUKS\xba\xbe", FileType("an encrypted disk (LUKS)", "cryptsetup open {} NAME")),
    (b"PAR1", FileType("a Parquet file", covers=_is_parquet)),
    (b"Obj\1", FileType("an Avro file")),
    (b"ARROW1\0\0", FileType("an Arrow file")),
    (b"SQLite format 3\0", FileType("an SQLite database", "sqlite3 {} .dump")),
    (b"\x89HDF\r\n\x1a\n", FileType("an HDF5 file")),
    (b"\x7fELF", FileType("an ELF program or library")),
    (b"\xca\xfe\xba\xbe", FileType("a Java class")),
    (b"\xac\xed\0\5", FileType("serialized Java objects")),
    (b"JAVA PROFILE 1.0", FileType("a heap dump of Java")),
    (b"FLR\0", FileType("a recording of Java Flight Recorder")),
    (b"LPKSHHRH", FileType("a journal of systemd", "journalctl --file {}")),
    (b"\xd4\xc3\xb2\xa1", FileType("a capture of network packets", "tcpdump -r {}")),
    (b"\xa1\xb2\xc3\xd4", FileType("a capture of network packets", "tcpdump -r {}")),
    (b"\x0a\x0d\x0d\x0a", FileType("a capture of network packets", "tcpdump -r {}")),
    (b"\x89PNG\r\n\x1a\n", FileType("a PNG picture")),
    (b"\xff\xd8\xff", FileType("a JPEG picture")),
    (b"%PDF-", FileType("a PDF document")),
)
"""The first bytes of the types."""

_PATTERNS: Final[tuple[tuple[Callable[[bytes], bool], FileType], ...]] = (
    (lambda head: re.match(rb"BZh[1-9]1AY&SY", head) is not None, _compressed("a bzip2 file", "bzip2", _bzip2)),
    (_is_tar_header, _TAR),
    (
        lambda head: head[:2] == b"MZ" and head[_at_60(head) :][:4] == b"PE\0\0",
        FileType("a Windows program or library"),
    ),
    (lambda head: head[:3] == b"ORC" and not _is_text(head), FileType("an ORC file")),
    (lambda head: head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5, _ZSTD),
    (_is_openpgp, _PGP),
    (_is_json, FileType("JSON", "less {}")),
    (_is_utf16, FileType("text in UTF-16", "iconv -f UTF-16 {}")),
    (_is_text, FileType("text", "less {}")),
)
