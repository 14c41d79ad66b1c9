"""Drivers that are not here, as the enforcers see them: they keep what they are told, and fail as they are told to."""

from gpustack_ctl.agent.responders.ascend import ShareFlagError
from gpustack_ctl.agent.responders.cambricon import NoSmluError, SmluError, SmluInstance


class Flag:
    """Huawei's container-share flag."""

    def __init__(self, *, on: bool = False, unreadable: bool = False, refuses: bool = False) -> None:
        self.on = on
        self.unreadable = unreadable
        self.refuses = refuses
        self.set_on: list[int] = []

    async def is_set(self, card: int) -> bool:
        if self.unreadable:
            raise ShareFlagError("timeout")
        return self.on

    async def set(self, card: int) -> None:
        if self.refuses:
            raise ShareFlagError("not supported")
        self.on = True
        self.set_on.append(card)


class SmluDriver:
    """cnDev's sMLU. A profile is found again by its exact figures."""

    def __init__(self, *, on: bool = False, absent: bool = False, refuses: str = "") -> None:
        self.on = on
        self.absent = absent
        self.refuses = refuses
        self.made: dict[tuple[int, str], tuple[int, int]] = {}

    def cards(self) -> int:
        self._answer("cards")
        return 16

    def is_on(self, card: int) -> bool:
        self._answer("is_on")
        return self.on

    def turn_on(self, card: int) -> None:
        self._answer("turn_on")
        self.on = True

    def instances(self, card: int) -> list[SmluInstance]:
        self._answer("instances")
        return [SmluInstance(name, f"/dev/cap_dev{at}_{name}") for at, name in self.made if at == card]

    def create(self, card: int, name: str, *, quota: int, memory_bytes: int) -> None:
        self._answer("create")
        self.made[card, name] = (quota, memory_bytes)

    def destroy(self, card: int, name: str) -> None:
        self._answer("destroy")
        del self.made[card, name]

    def _answer(self, call: str) -> None:
        if self.absent:
            raise NoSmluError("libcndev.so cannot be loaded")
        if call == self.refuses:
            raise SmluError(f"{call} failed with cnDev code 9")


class SgpuDriver:
    """MetaX's subdevices: the driver takes the lowest free number, and changes no card that is in use."""

    def __init__(self, *, refuses: str = "", silent: bool = False) -> None:
        self.refuses = refuses
        self.silent = silent
        self.prepared: list[str] = []
        self.made: dict[tuple[str, int], int] = {}

    def there(self, bus_id: str) -> bool:
        return self.refuses != "there"

    def numbers(self, bus_id: str) -> set[int]:
        return {number for card, number in self.made if card == bus_id}

    def prepare(self, bus_id: str) -> None:
        self._answer("prepare")
        assert not self.numbers(bus_id), "the driver changes no card that is in use"
        self.prepared.append(bus_id)

    def create(self, bus_id: str, memory_mib: int) -> None:
        self._answer("create")
        number = next(number for number in range(16) if (bus_id, number) not in self.made)
        if not self.silent:
            self.made[bus_id, number] = memory_mib

    def destroy(self, bus_id: str, number: int) -> None:
        self._answer("destroy")
        del self.made[bus_id, number]

    def _answer(self, call: str) -> None:
        if call == self.refuses:
            raise OSError(5, f"Input/output error in {call}")
