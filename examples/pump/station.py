import json
import random
import sys
from pathlib import Path

name, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
policy = None if name == "careful" else json.loads(Path(name).read_text())
levels = ["empty", "low", "high", "full"]

print("episode,step,state,action,reward,cost_overflow,next_state")
for day in range(first, last):
    random.seed(day)
    changed = day >= 200  # more houses send their rain here
    rain = random.choices([0, 1, 2], [0.6, 0.3, 0.1] if changed else [0.7, 0.25, 0.05], k=24)
    level = 0
    for hour in range(24):
        if policy is None:  # by hand: careful, and now and then something else, to learn
            pump = "on" if level and random.random() < 0.9 else "off"
        else:
            choice = policy["policies"][0]["steps"][hour][policy["states"].index(levels[level])]
            if isinstance(choice, list):  # a lottery: [[action, probability], ...]
                choice = random.choices([a for a, p in choice], [p for a, p in choice])[0]
            pump = policy["actions"][choice]
        water = level - (pump == "on") + rain[hour]
        after = min(water, 3)
        print(day, hour, levels[level], pump, -int(pump == "on"), water - after, levels[after], sep=",")
        level = after
