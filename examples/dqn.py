"""Q-learning on a chain: acting and learning with one network, a slow copy for the targets."""

import argparse
import copy
import random
from collections import deque

import torch
from torch import nn


class Chain:
    def __init__(self, length=10):
        self.length = length

    def reset(self):
        self.at = 0
        return self.observe()

    def observe(self):
        return nn.functional.one_hot(torch.tensor(self.at), self.length).float()

    def step(self, action):
        self.at = max(0, self.at - 1) if action == 0 else self.at + 1
        done = self.at == self.length - 1
        return self.observe(), 1.0 if done else -0.01, done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--tau", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    random.seed(args.seed)

    env, memory = Chain(), deque(maxlen=500)
    q = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
    q.register_buffer("bias", torch.zeros(2))
    target = copy.deepcopy(q)
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    state, updates, epsilon = env.reset(), 0, 1.0
    while updates < args.steps:
        if random.random() < epsilon:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = q(state.unsqueeze(0)).argmax().item()
        following, reward, done = env.step(action)
        memory.append((state, action, reward, following, done))
        state = env.reset() if done else following
        epsilon = max(0.05, epsilon * 0.995)
        if len(memory) < 16:
            continue
        s, a, r, n, d = zip(*random.sample(memory, 16))
        with torch.no_grad():
            best = target(torch.stack(n)).max(1).values
            goal = torch.tensor(r) + args.gamma * best * ~torch.tensor(d)
        value = q(torch.stack(s)).gather(1, torch.tensor(a).unsqueeze(1)).squeeze(1)
        loss = nn.functional.huber_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(q.parameters(), 1)
        optimizer.step()
        updates += 1
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), q.parameters()):
                slow.lerp_(fast, args.tau)
        if updates % 50 == 0:
            target.load_state_dict(q.state_dict())
        print(f"update {updates} loss {loss.item():.6f} epsilon {epsilon:.3f}")


if __name__ == "__main__":
    main()
