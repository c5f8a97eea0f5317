"""A stream for each bundled workload, such that its queries find something to match."""

from __future__ import annotations

from workloads.generators.distributions import Constant, Integers, Keys, OneOfValues, Uniform
from workloads.generators.query_groups import TICKERS
from workloads.generators.rates import uniform_rates
from workloads.generators.spec import Attribute, Phase, StreamSpec

# What the shop sells: name in types, item, views and purchases a second, price.
_GOODS = (
    ("Kindle", "kindle", 6.0, 4.0, Uniform(60, 140)),
    ("KindleFire", "fire", 4.0, 1.5, Uniform(120, 220)),
    ("iPad", "ipad", 4.0, 1.5, Uniform(300, 700)),
    ("Case", "case", 5.0, 3.0, Uniform(10, 50)),
    ("eBook", "ebook", 5.0, 3.0, Uniform(2, 20)),
    ("Light", "light", 3.0, 2.0, Uniform(8, 25)),
)
_WITH_MODEL = ("kindle", "case", "light")
_MODELS = OneOfValues(("touch", "paperwhite", "oasis"), (5, 3, 2))


def _shop() -> StreamSpec:
    """500 users with 6 clicks a minute each on average: every pattern fits into ten minutes."""
    views = {f"V{name}": rate for name, _, rate, _, _ in _GOODS}
    purchases = {f"B{name}": rate for name, _, _, rate, _ in _GOODS}
    others = {"Login": 2.0, "Cart": 3.0, "Rec": 3.0}
    items = {f"{v}{name}": item for name, item, *_ in _GOODS for v in "VB"}
    prices = {f"{v}{name}": price for name, *_, price in _GOODS for v in "VB"}
    any_item = OneOfValues(tuple(item for _, item, *_ in _GOODS))
    return StreamSpec(
        rates=views | purchases | others,
        events=50_000,
        seed=1,
        unit="ms",
        ties=0.02,
        type=None,  # `action` and `item` together say the type
        sequence="seq",
        attributes={
            "action": Attribute(
                None,
                dict.fromkeys(views, Constant("View"))
                | dict.fromkeys(purchases, Constant("Buy"))
                | {name: Constant(name) for name in others},
            ),
            "item": Attribute(
                None,
                {name: Constant(item) for name, item in items.items()}
                | {"Cart": any_item, "Rec": any_item},
            ),
            "user": Attribute(Keys(500, skew=0.3, prefix="u")),
            "price": Attribute(None, prices | {"Cart": Uniform(5, 400)}),
            "model": Attribute(
                None, {name: _MODELS for name, item in items.items() if item in _WITH_MODEL}
            ),
            "campaign": Attribute(
                None, {"Rec": OneOfValues(("spring", "mail", "partner"))}, nulls=0.2
            ),
        },
    )


def _stocks() -> StreamSpec:
    """Twenty stocks at equal rates, prices and the rest uniform, and a web server's log."""
    web = {"Publication": 4.0, "Project": 6.8, "Course": 9.2}
    return StreamSpec(
        # ZStream's table 4 has 6775, 11610 and 16083 accesses to the three kinds of page.
        rates={**uniform_rates(TICKERS, 980.0), **web},
        events=50_000,
        seed=1,
        unit="ms",
        ties=0.1,
        type="symbol",
        sequence="seq",
        attributes={
            # [0, 1000) is what the Odense thesis draws price, type and volume from (section 6.6).
            "price": Attribute(None, dict.fromkeys(TICKERS, Uniform(0, 1000))),
            "volume": Attribute(None, dict.fromkeys(TICKERS, Integers(0, 1000))),
            "tier": Attribute(None, dict.fromkeys(TICKERS, Integers(0, 1000))),
            "side": Attribute(None, dict.fromkeys(TICKERS, Integers(0, 2))),
            "client": Attribute(None, dict.fromkeys(web, Keys(300, skew=0.5, prefix="ip"))),
        },
    )


def _hospital() -> StreamSpec:
    """200 tools, each read about nine times an hour."""
    return StreamSpec(
        rates={
            "Recycle": 0.07,
            "Washing": 0.08,
            "Sharpening": 0.06,
            "Disinfection": 0.08,
            "Checking": 0.08,
            "Packing": 0.05,
            "Operating": 0.08,
        },
        events=20_000,
        seed=1,
        unit="s",
        ties=0.05,
        type="step",
        sequence="seq",
        attributes={
            "id": Attribute(Keys(200)),
            "ward": Attribute(OneOfValues(("north", "south", "east", "west"))),
            "temperature": Attribute(
                None, {"Washing": Uniform(50, 90), "Disinfection": Uniform(70, 100)}
            ),
            "passed": Attribute(None, {"Checking": OneOfValues((True, False), (9, 1))}),
        },
    )


def _readings(**ranges: tuple[float, float]) -> dict[str, Attribute]:
    return {name: Attribute(Uniform(*between)) for name, between in ranges.items()}


def _driving() -> StreamSpec:
    """Twenty cars in a convoy, each heard of about once a second: they cruise, race and brake."""
    cruising = _readings(speed=(40, 60), accel=(-2, 2))
    return StreamSpec(
        rates={"Car": 20.0},
        events=50_000,
        seed=1,
        unit="ms",
        type="kind",
        sequence="seq",
        attributes={"car": Attribute(Keys(20)), **cruising},
        phases=(
            Phase(1_600),
            Phase(160, attributes=_readings(speed=(50, 69), accel=(8.5, 11))),
            Phase(60, attributes=_readings(speed=(71, 90), accel=(8.5, 11))),
            Phase(240, attributes=_readings(speed=(75, 100), accel=(-1, 1))),
            Phase(60, attributes=_readings(speed=(71, 85), accel=(-12, -9.5))),
            Phase(100, attributes=_readings(speed=(30, 69), accel=(-12, -9.5))),
            Phase(200, attributes=_readings(speed=(0, 0.5), accel=(-0.2, 0.2))),
        ),
    )


def _machines() -> StreamSpec:
    """Twelve machines in one hall, each read about once a second, that fare alike."""
    calm = {"temperature": (50.0, 75.0), "vibration": (0.0, 4.0), "pressure": (8.0, 11.0)}
    hot, shaking, pressed = (82.0, 95.0), (6.0, 9.0), (12.5, 15.0)
    return StreamSpec(
        rates={"Reading": 10.0},
        events=30_000,
        seed=1,
        unit="ms",
        type="kind",
        sequence="seq",
        attributes={"machine": Attribute(Keys(12)), **_readings(**calm)},
        phases=(
            Phase(1_200),
            Phase(300, attributes=_readings(temperature=hot)),
            Phase(200, attributes=_readings(temperature=hot, vibration=shaking)),
            Phase(200, attributes=_readings(vibration=shaking)),
            Phase(150, attributes=_readings(vibration=shaking, pressure=pressed)),
            Phase(200, attributes=_readings(pressure=pressed)),
        ),
    )


STREAMS = {
    "driving": _driving(),
    "funnels": _shop(),
    "hospital": _hospital(),
    "machines": _machines(),
    "shop": _shop(),
    "stocks": _stocks(),
}
