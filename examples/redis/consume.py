"""Reads learning samples from precept's streams, as a member of a consumer group.

    pip install redis
    python consume.py redis://:PASSWORD@127.0.0.1:6379/0 [GROUP [NAME]] [--once]

Every sample goes to one member of the group. It is acknowledged when it has been printed; what a member that died had taken is
taken over after a minute. Start as many members as you like.
"""

import json
import sys
import time

import redis

args = [a for a in sys.argv[1:] if a != "--once"]
url, group, name = (args + ["trainers", "consumer-1"][len(args) - 1 :])[:3]
r = redis.Redis.from_url(url, decode_responses=True)


def streams():
    """The stream of each tenant, with the group in place. A group begins with the oldest sample (id 0)."""
    for key in r.scan_iter("precept:{*}:samples", count=1000):
        try:
            r.xgroup_create(key, group, id="0")
        except redis.ResponseError as e:
            if "BUSYGROUP" not in str(e):
                raise
        yield key


def take(stream, entry, fields):
    """One sample: the entry tells what it is and where its document lies."""
    doc = r.hget(fields["key"], fields["sample_id"])
    if doc is not None:  # else its session was forgotten meanwhile
        sample = json.loads(doc)
        print(fields["tenant"], fields["agent"], sample["sample_family"], sample["sample_id"], sample["feedback"].get("quality_label", "unrated"))
        sys.stdout.flush()
    r.xack(stream, group, entry)


while True:
    keys = list(streams())
    for key in keys:
        _, left, *_ = r.xautoclaim(key, group, name, min_idle_time=60_000, count=100)
        for entry, fields in left:
            if fields:
                take(key, entry, fields)
    # ">" asks for what no member has been given. On a Cluster, read each stream by itself.
    for key, entries in r.xreadgroup(group, name, {k: ">" for k in keys}, count=100, block=None if "--once" in sys.argv else 5000) if keys else []:
        for entry, fields in entries:
            take(key, entry, fields)
    if "--once" in sys.argv:
        break
    if not keys:
        time.sleep(5)
