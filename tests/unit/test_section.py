"""Sections: fields with types and defaults, and every problem of the values that one is given, each at its path."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import pytest

from kernbench.config.fields import Count, Rate
from kernbench.config.json_schema import section_json_schema
from kernbench.config.section import Field, Refused, Section, ValidationError


class Inner(Section):
    """One of a list."""

    n: Count = Field(default=3, description="how many")


class Sample(Section):
    """Every type of field."""

    kind: Literal["a", "b"] = Field(default="a", alias="schema")
    name: str = Field(description="without a default")
    pair: tuple[Count, Count] = (1, 2)
    inner: Inner = Field(default_factory=Inner)
    several: Annotated[tuple[Inner, ...], Field(min_length=1)] = (Inner(),)
    table: dict[str, Count] = Field(default={})
    absent: Inner | None = None
    pages: ClassVar[int] = 3

    def complete_given(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**data, "name": "twin"} if data.get("schema") == "b" and "name" not in data else data

    def check_whole(self) -> None:
        if self.pair[0] > self.pair[1]:
            raise Refused("order", "pair must rise", {"first": self.pair[0]})

    @cached_property
    def total(self) -> int:
        return sum(self.pair)


class Open(Section):
    """Has keys of its own."""

    open_ended: ClassVar[bool] = True
    n: Count = 1


def problems(**given: Any) -> list[tuple[str, tuple[Any, ...], str]]:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate(given)
    return [(one["type"], one["loc"], one["msg"]) for one in caught.value.errors()]


def test_values_become_their_types_and_the_rest_has_defaults() -> None:
    made = Sample.model_validate({"name": "x", "pair": [3, 4], "several": [{"n": 1}, Inner(n=2)], "table": {"k": 5}})
    assert (made.kind, made.pair, made.several, made.table) == ("a", (3, 4), (Inner(n=1), Inner(n=2)), {"k": 5})
    assert made.inner == Inner(n=3) and made.absent is None and made.pages == 3
    assert Sample.model_validate({"schema": "b"}).name == "twin"


def test_every_problem_is_named_at_its_path() -> None:
    given = {"schema": "c", "pair": [0], "inner": {"m": 1}, "several": [], "table": {1: "x"}, "absent": 4, 7: 0}
    assert problems(**{str(key): value for key, value in given.items() if key != 7}) == [
        ("choice", ("schema",), "it must be one of a, b"),
        ("missing", ("name",), "it is required: it has no default"),
        ("rule", ("pair", 0), "it must be at least 1"),
        ("missing", ("pair", 1), "it is required: it has no default"),
        ("unknown_key", ("inner", "m"), "there is no such key"),
        ("length", ("several",), "it must be a list of at least 1"),
        ("text", ("table", 1, "[key]"), "it must be text"),
        ("rule", ("table", 1), "it must be an integer"),
        ("mapping", ("absent",), "it must be a mapping"),
    ]
    with pytest.raises(ValidationError, match="a key must be text"):
        Sample.model_validate({"name": "x", 7: 0})
    assert problems(name=3, pair=(1, 2, 3), several=5, table=[]) == [
        ("text", ("name",), "it must be text"),
        ("length", ("pair",), "it must be a list of 2"),
        ("list", ("several",), "it must be a list"),
        ("mapping", ("table",), "it must be a mapping"),
    ]


def test_the_whole_is_checked_where_each_value_is_valid() -> None:
    assert problems(name="x", pair=[2, 1]) == [("order", (), "pair must rise")]
    assert problems(name="x", pair=[2, 1], table=0) == [("mapping", ("table",), "it must be a mapping")]


def test_a_section_never_changes_and_copies_are_equal() -> None:
    made = Sample(name="x", pair=(3, 4))
    assert made.total == 7
    for change in (lambda: setattr(made, "name", "y"), lambda: delattr(made, "name")):
        with pytest.raises(ValidationError, match="never change"):
            change()
    assert made == copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) != made.model_copy(update={"name": "y"})
    assert made.model_copy(update={"pair": (5, 6)}).total == 11
    assert Inner(n=2) == Inner(n=2) and hash(Inner(n=2)) == hash(Inner(n=2)) and Inner(n=2) != Open(n=2)
    assert repr(Inner(n=2)) == "Inner(n=2)" and made.model_dump()["several"] == ({"n": 3},)


def test_defaults_are_not_shared() -> None:
    Sample(name="x").table["k"] = 1
    assert Sample(name="x").table == {}


def test_other_keys_are_kept_by_an_open_section_only() -> None:
    made = Open.model_validate({"n": 2, "more": [1]})
    assert made.model_extra == {"more": [1]} and made.model_copy().model_extra == {"more": [1]} and made != Open(n=2)
    assert Inner().model_extra == {}


def test_the_json_schema_has_fields_in_order_and_sections_apart() -> None:
    schema = section_json_schema(Sample)
    assert list(schema["properties"]) == ["schema", "name", "pair", "inner", "several", "table", "absent"]
    assert schema["required"] == ["name"] and schema["$defs"]["Inner"]["properties"]["n"]["minimum"] == 1
    assert schema["properties"]["schema"] == {"default": "a", "enum": ["a", "b"], "title": "Schema", "type": "string"}


def test_a_machine_is_loaded_without_pydantic() -> None:
    code = "import sys; from kernbench.config import load_config; load_config('npu_mobile'); print('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


class Rated(Section):
    """With a rate."""

    rate: Rate = Field(default=Fraction(1), description="how fast")


@pytest.mark.parametrize("value", [f"1/{2**31}", f"{2**31}", f"{2**31 + 1}/2", f"{2**31 - 1}/{2**31}"])
def test_the_terms_of_a_rational_stay_below_2_to_31(value: str) -> None:
    with pytest.raises(ValidationError, match=r"written as a fraction, its numerator and denominator must be below 2\^31"):
        Rated.model_validate({"rate": value})
    assert Rated.model_validate({"rate": f"{2**31 - 1}/{2**31 - 2}"}).rate == Fraction(2**31 - 1, 2**31 - 2)
