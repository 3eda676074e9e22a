"""Contract suites: what each protocol promises, as tests that a plug-in's author inherits.

    class TestMyStore(StoreContract):
        def make(self, clock):
            return MyStore(clock=clock)

The tests are `async def`: pytest-asyncio runs them in its `auto` mode, or with the class marked
`@pytest.mark.asyncio`. They use nothing of pytest; `broken_promises` runs them without it.
"""
