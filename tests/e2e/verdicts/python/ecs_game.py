# SPDX-License-Identifier: Apache-2.0
"""A game loop whose entities refer to each other in circles: the garbage collector takes them away between the levels."""
import gc
import os
import random
import sys
import time


class Entity:
    def __init__(self, world, kind):
        self.world = world
        self.kind = kind
        self.children = []
        self.parent = None
        self.path = [float(i) for i in range(40)]

    def attach(self, child):
        child.parent = self
        self.children.append(child)


class World:
    def __init__(self):
        self.entities = []

    def spawn_tank(self):
        tank = Entity(self, "tank")
        for kind in ("turret", "track", "track"):
            tank.attach(Entity(self, kind))
        self.entities.append(tank)

    def step(self, rng):
        for tank in self.entities:
            tank.path[rng.randrange(40)] += 1.0
        if len(self.entities) > 60:
            del self.entities[:4]


def play(length):
    start = time.monotonic()
    rng = random.Random(11)
    sprites = {name: bytes(rng.randrange(256) for _ in range(900)) * 8 for name in ("tank", "turret", "track", "tree", "wall")}
    world = World()
    for _ in range(64):
        world.spawn_tank()
    frame = 0
    while time.monotonic() - start < length:
        for _ in range(4):
            world.spawn_tank()
        world.step(rng)
        frame += 1
        if frame % 6 == 0:
            gc.collect()
        time.sleep(0.016)
    return len(sprites) + len(world.entities)


gc.disable()
play(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0)
os._exit(0)
