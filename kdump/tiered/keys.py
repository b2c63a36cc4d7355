"""The key ring: RSA key pairs by id, and the keys of segments that are encrypted with them.

Nothing here is ever shown: no key, no part of a file of keys, no message of the library.

Source: docs/spec/tiered.md#4-encryption.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from kdump.codes import Codes, KdumpError
from kdump.tiered.manifest import Sealing

_NEEDS: Final = "encrypted objects need pycryptodome: pip install pycryptodome"
_IV: Final = 12
_TAG: Final = 16
_LARGEST_FILE: Final = 1 << 20
_AES_SIZES: Final = (16, 24, 32)


class KeyRing:
    """Files with private keys (PEM) by the ids that manifests name."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)

    def data_key(self, sealing: Sealing, path: str) -> bytes:
        """The AES key of a segment. ``path``: of its object, for the error.

        Raises:
            KdumpError: REMOTE_KEY where the id is not in the ring, its file holds no private key, or its key is
                another one.
        """
        if sealing.key_id not in self.files:
            what = f"is encrypted with the key {sealing.key_id}, which is not in the key ring"
            raise KdumpError(Codes.REMOTE_KEY, f"{what}: --key-ring {sealing.key_id}=FILE", path=path)
        try:
            found = _unsealed(self.files[sealing.key_id], sealing)
        except KdumpError as error:
            raise error.located(path) from None
        if found is None:
            what = f"the key {sealing.key_id} of the key ring is not the one that this object is encrypted with"
            raise KdumpError(Codes.REMOTE_KEY, what, path=path)
        return found


@lru_cache(maxsize=1 << 12)
def _unsealed(file: str, sealing: Sealing) -> bytes | None:
    """The AES key. The decryption takes milliseconds, and the files of one segment need the same key."""
    cipher = _rsa(sealing.key_id, file)
    try:
        key: bytes = cipher.decrypt(sealing.data_key)
    except (ValueError, TypeError):
        return None
    return key if len(key) in _AES_SIZES else None


@lru_cache(maxsize=64)
def _rsa(key_id: str, file: str) -> Any:
    """RSA-OAEP with SHA3-512 for hash and mask, which cryptography (the library) refuses.

    Raises KdumpError, which does not have the path of the object.
    """

    def refused(why: str) -> KdumpError:
        return KdumpError(Codes.REMOTE_KEY, f"the key {key_id} of the key ring cannot be used: {file}: {why}")

    try:
        from Crypto.Cipher import PKCS1_OAEP
        from Crypto.Hash import SHA3_512
        from Crypto.PublicKey import RSA
    except ImportError:
        raise KdumpError(Codes.UNREADABLE, _NEEDS) from None
    try:
        with open(file, "rb") as opened:
            key = RSA.import_key(opened.read(_LARGEST_FILE))
    except OSError as error:
        raise refused(error.strerror or "cannot be read") from None
    except (ValueError, IndexError, TypeError):
        raise refused("holds no RSA key in PEM") from None
    if not key.has_private():
        raise refused("holds a public key; the private one is needed to read")
    return PKCS1_OAEP.new(key, hashAlgo=SHA3_512)


def unseal(key: bytes, additional: bytes, data: bytes) -> bytes | None:
    """What AES-256-GCM encrypted: the IV, the bytes, the tag. None where the tag does not fit."""
    from Crypto.Cipher import AES

    if len(data) < _IV + _TAG:
        return None
    cipher = AES.new(key, AES.MODE_GCM, nonce=data[:_IV])
    cipher.update(additional)
    try:
        return cipher.decrypt_and_verify(data[_IV:-_TAG], data[-_TAG:])
    except ValueError:
        return None
