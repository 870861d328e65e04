"""An order and the message about it, together or not at all: a transaction around a database's commit.

    python examples/outbox.py [host:port of a name server]

The message becomes visible only when the block ends well. Should this process die between the database's
commit and the message's, the broker asks `check`, which looks into the database.
"""

import asyncio
import sqlite3
import sys

import roquet

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

database = sqlite3.connect(":memory:")
database.execute("create table orders (id text primary key, amount integer)")


def check(message: roquet.Message) -> str:
    """Tell the broker whether the order of a half message was saved."""
    (order_id,) = message.keys
    row = database.execute("select 1 from orders where id = ?", (order_id,)).fetchone()
    return "commit" if row else "rollback"


async def place_order(producer: roquet.Producer, order_id: str, amount: int) -> None:
    """Save an order and announce it."""
    async with producer.transaction("placed-orders", str(amount), keys=[order_id]):
        with database:
            if amount <= 0:
                raise ValueError(f"order {order_id} is worth nothing")
            database.execute("insert into orders values (?, ?)", (order_id, amount))


async def main() -> None:
    async with roquet.Producer(NAMESRV, group="order-service", check=check) as producer:
        await place_order(producer, "42", 100)
        try:
            await place_order(producer, "43", 0)
        except ValueError as error:
            print("taken back:", error)

    async with roquet.Consumer(
        NAMESRV, group="warehouse", subscribe="placed-orders", start="earliest"
    ) as consumer:
        async for message in consumer:
            print("order", message.keys[0], "over", message.body.decode(), "may be packed")
            await message.ack()
            break


asyncio.run(main())
