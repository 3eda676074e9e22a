"""Storage in the memory of this process."""

from __future__ import annotations

from toolcrib.providers.storage.backend import Held, Item, Room, check_room, check_version


class _Space:
    """What one owner has."""

    __slots__ = ("items", "size", "version")

    def __init__(self) -> None:
        self.items: dict[str, tuple[Item, int]] = {}
        self.size = 0
        self.version = 0


class MemoryBackend:
    """Keeps items until the provider is left."""

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Let everything go."""
        self._spaces.clear()

    async def health(self) -> None:
        """Memory is always there."""

    async def read(self, owner: str, key: str) -> tuple[str, int] | None:
        """The value and version of a key."""
        found = self._items(owner).get(key)
        return None if found is None else (found[0].text, found[1])

    async def write(self, owner: str, item: Item, if_version: int | None, room: Room) -> int:
        """Keep an item; its new version."""
        space = self._spaces.get(owner) or _Space()
        old = space.items.get(item.key)
        check_version(item.key, 0 if old is None else old[1], if_version)
        old_size = None if old is None else old[0].size
        check_room(Held(len(space.items), space.size, space.version), item, old_size, room)
        space.version += 1
        space.size += item.size - (old_size or 0)
        space.items[item.key] = item, space.version
        self._spaces[owner] = space
        return space.version

    async def delete(self, owner: str, key: str, if_version: int | None) -> bool:
        """Remove a key; whether it was there."""
        found = self._items(owner).get(key)
        check_version(key, 0 if found is None else found[1], if_version)
        if found is None:
            return False
        space = self._spaces[owner]
        del space.items[key]
        space.size -= found[0].size
        return True

    async def list(self, owner: str, prefix: str, after: str, limit: int) -> list[tuple[str, int]]:
        """Keys behind `after`, with their versions."""
        items = self._items(owner)
        keys = sorted(key for key in items if key.startswith(prefix) and key > after)
        return [(key, items[key][1]) for key in keys[:limit]]

    async def search(self, owner: str, words: str, limit: int) -> list[tuple[str, int]]:
        """Keys of items that contain the words, with their versions."""
        items = self._items(owner)
        keys = sorted(key for key, (item, _) in items.items() if words in item.words)
        return [(key, items[key][1]) for key in keys[:limit]]

    async def forget(self, owner: str) -> None:
        """Remove all that an owner has."""
        self._spaces.pop(owner, None)

    def _items(self, owner: str) -> dict[str, tuple[Item, int]]:
        space = self._spaces.get(owner)
        return {} if space is None else space.items
