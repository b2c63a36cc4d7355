"""log.uris: what names a store, and that nothing else is ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.log import files
from kdump.log.names import is_uri
from kdump.log.uris import parse_uri

SECRETS = st.text(st.sampled_from("abcxyzABCXYZ0189+/=_-."), min_size=8, max_size=40)


@pytest.mark.parametrize("path", ["s3://b", "file:///x", "hdfs://h:1/x", "a.b+c-1://"])
def test_uris(path: str) -> None:
    assert is_uri(path)


@pytest.mark.parametrize("path", ["-", "s3:/b", "/s3://b", "./s3://b", "1s://b", "://b", "0.log", "s3", ""])
def test_paths(path: str) -> None:
    assert not is_uri(path)
    assert files.strip_credentials(path) == path


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("s3://b/orders-0/", "s3://b/orders-0"),
        ("s3://b", "s3://b"),
        ("s3://b/?region=x", "s3://b"),
        ("S3://b/x", "s3://b/x"),
        ("s3://AKIA:abc@b/x", "s3://b/x"),
        # As it is copied from a console, with its slashes.
        ("s3a://AKIA:12/cd+ef/gh@b/x@y", "s3a://b/x@y"),
        ("s3://AKIA@b/x", "s3://b/x"),
        ("s3://b/x?access_key=k&secret_key=s#part", "s3://b/x"),
        ("gs://anonymous@b/x", "gs://b/x"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("abfs://account:key@container/x", "abfs://account@container/x"),
        ("abfs://container:key@account.dfs.core.windows.net/x", "abfs://container@account.dfs.core.windows.net/x"),
        ("hdfs://alice@namenode:8020/a@b", "hdfs://alice@namenode:8020/a@b"),
        ("hdfs://namenode:8020/a@b", "hdfs://namenode:8020/a@b"),
        ("ftp://u:p/w@host/x", "ftp://host/x"),
        ("file:///a b/50%25/é", "file:///a%20b/50%25/%C3%A9"),
        ("s3://b/line\nbreak", "s3://b/line%0Abreak"),
        # How Python hands over bytes that are no UTF-8.
        ("s3://b/\udcff", "s3://b/%FF"),
    ],
)
def test_clean(given: str, clean: str) -> None:
    assert parse_uri(given).clean == clean
    assert parse_uri(clean).clean == clean


@given(SECRETS, st.sampled_from(["s3", "s3a", "gs", "abfs", "ftp"]))
def test_secrets_stay_secret(secret: str, scheme: str) -> None:
    uri = parse_uri(f"{scheme}://user:k{secret}@host/orders-0?password={secret}&region=eu-north-9")
    assert secret not in uri.clean
    told = f"{uri.for_pyarrow('/orders-0')}: key k{secret}, password {secret}, in eu-north-9"
    assert secret not in uri.scrubbed(told)
    assert "eu-north-9" in uri.scrubbed(told)


def test_as_pyarrow_takes_it() -> None:
    uri = parse_uri("s3a://AKIA:a/b+c@bucket/x?region=eu")
    assert uri.with_path("") == "s3a://AKIA:a%2Fb%2Bc@bucket?region=eu"
    assert uri.for_pyarrow("/y/0.log") == "s3://AKIA:a%2Fb%2Bc@bucket/y/0.log?region=eu"


@given(st.text())
def test_any_text_can_be_taken_apart(text: str) -> None:
    uri = parse_uri(f"s3://{text}")
    assert parse_uri(uri.clean).clean == uri.clean
