from collections.abc import Sequence

from roquet.broker.features.timer._parked_values import Parked

def read_parked(records: Sequence[bytes | memoryview]) -> list[Parked]: ...
