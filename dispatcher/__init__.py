"""The dispatcher: schedulers and engine (pure), the runtime around them, store, API and CLI.

What may enter: what decides which container runs where and when, and what shows it to people.
Folders that decide (`domain`, `state`, `scheduler`, `explain`, most of `engine`) import no effects;
`engine.runtime` carries out what they ask for; `server.wiring` is the only place where the parts
are put together. Imports `pool` and `drivers`; nothing imports it.
"""
