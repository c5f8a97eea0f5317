"""Schemas come from a registry over HTTP, once each, and its failures are told as such."""

from collections.abc import Iterator

import pytest

from engines.limits import EventsError
from engines.wire import registry as registries
from engines.wire.registry import NoSchemaError, Registry, check_address
from tests.engines.registry import Schemas, registry


@pytest.fixture
def schemas(monkeypatch: pytest.MonkeyPatch) -> Iterator[Schemas]:
    monkeypatch.setattr(registries.time, "sleep", lambda seconds: None)  # type: ignore[attr-defined]
    with registry() as found:
        yield found


def test_a_schema_is_asked_for_once(schemas: Schemas) -> None:
    number = schemas.add("s", "int")
    there = Registry(schemas.address)
    assert there.schema(number).text == "int"
    assert there.schema(number).kind == "AVRO"
    assert schemas.asked == [f"/schemas/ids/{number}"]
    with pytest.raises(NoSchemaError):
        there.schema(number + 1)
    schemas.add("s", "long")  # which is there now
    assert there.schema(number + 1).text == "long"


def test_all_that_a_schema_refers_to_comes_before_it(schemas: Schemas) -> None:
    schemas.add("c", "C")
    schemas.add("b", "B", refers=(("c", "c"),))
    schemas.add("b", "B2")  # a later version, which is not meant
    number = schemas.add("a", "A", refers=(("b", "b"), ("c", "c")))
    schemas.subjects["a"][0]["references"][0]["version"] = 1
    found = Registry(schemas.address).schema(number)
    assert found.references == (("c", "C"), ("b", "B"))
    assert Registry(schemas.address).latest("a") == found


def test_a_registry_that_fails_for_a_moment_is_asked_again(schemas: Schemas) -> None:
    number, schemas.failures = schemas.add("s", "int"), 2
    assert Registry(schemas.address).schema(number).text == "int"
    schemas.failures = 3
    with pytest.raises(EventsError, match=rf"{schemas.address}/ .* it answers 503; check its"):
        Registry(schemas.address + "/").schema(number)


def test_user_and_password_are_sent_and_not_shown(schemas: Schemas) -> None:
    schemas.user = "me:se/cret"
    number = schemas.add("s", "int")
    host = schemas.address.removeprefix("http://")
    assert Registry(f"http://me:se%2Fcret@{host}").schema(number).text == "int"
    wrong = Registry(f"http://me:false@{host}")
    with pytest.raises(EventsError) as error:
        wrong.schema(number)
    assert "it answers 401" in str(error.value)
    assert "false" not in f"{error.value} {wrong}"


def test_a_registry_that_is_not_there_says_where_it_was_sought(schemas: Schemas) -> None:
    with pytest.raises(EventsError, match=r"at http://127\.0\.0\.1:9 cannot be asked .*refused"):
        Registry("http://127.0.0.1:9").schema(1)
    with pytest.raises(EventsError, match="no subject 'orders-value'"):
        Registry(schemas.address).latest("orders-value")


@pytest.mark.parametrize("address", ["registry:8081", "ftp://registry", "http://", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(EventsError, match="http://HOST:PORT"):
        check_address(address)
