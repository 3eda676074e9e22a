"""What a loader promises."""

from __future__ import annotations

from toolcrib.core.protocols import Loader
from toolcrib.errors import ConfigError
from toolcrib.testing.contracts.promise import promise, undefined
from toolcrib.testing.contracts.specs import check_specs


class LoaderContract:
    """Inherit, and say how to make a loader that can read its source, and one that cannot."""

    def make(self) -> Loader:
        """A loader whose source is right."""
        undefined(self, "make")

    def make_broken(self) -> Loader:
        """A loader whose source is wrong."""
        undefined(self, "make_broken")

    async def test_it_gives_specs(self) -> None:
        check_specs(await self.make().load(), "a loader")

    async def test_its_specs_say_where_they_stand(self) -> None:
        for spec in await self.make().load():
            promise(spec.source, f"a loaded spec says where it stands; {spec.name} does not")

    async def test_it_gives_the_same_twice(self) -> None:
        first = [spec.digest for spec in await self.make().load()]
        second = [spec.digest for spec in await self.make().load()]
        promise(first == second, "an unchanged source gives unchanged specs in the same order")

    async def test_a_wrong_source_is_a_config_error(self) -> None:
        try:
            specs = await self.make_broken().load()
        except ConfigError as error:
            promise(error.file, "a loader's ConfigError names the file", str(error))
            promise(error.line, "a loader's ConfigError names the line", str(error))
        except Exception as error:
            raise AssertionError(
                f"broken promise: a loader raises ConfigError for a wrong source; found: {error!r}"
            ) from error
        else:
            promise(False, "a loader raises ConfigError for a wrong source", specs)
