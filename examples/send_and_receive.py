"""Sends a few orders and consumes them as a group, until all have come.

python examples/send_and_receive.py [host:port of a name server]
"""

import asyncio
import sys

import roquet

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
ORDERS = 10


async def main() -> None:
    async with roquet.Producer(NAMESRV, group="shop") as producer:
        for number in range(ORDERS):
            receipt = await producer.send("orders", f"order {number}", tag="created", keys=[str(number)])
            print("stored in queue", receipt.queue_id, "at", receipt.queue_offset)

    async with roquet.Consumer(NAMESRV, group="billing", subscribe="orders", start="earliest") as consumer:
        left = ORDERS
        async for message in consumer:
            print(message.body.decode(), "was sent at", message.born_time)
            await message.ack()
            left -= 1
            if not left:
                break


asyncio.run(main())
