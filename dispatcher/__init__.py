"""The dispatcher: queue, planner and engine (pure), the runtime around them, store, API and CLI.

What may enter: what decides which container runs where and when, and what shows it to people.
Modules that decide (`model`, `messages`, `queueing`, `planner`, `engine`) import no effects;
`runtime` carries out what they ask for; `wiring` is the only place where the parts are put
together. Imports `pool` and `drivers`; nothing imports it.
"""
