"""Q-learning on a chain: acting and learning with one network, a slow copy for the targets."""

import argparse
import copy
import random
from collections import deque

import checkpoints
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


class Agent:
    """Where it stands, how bold it is, and what it remembers."""

    def __init__(self, env):
        self.env, self.state, self.epsilon = env, env.reset(), 1.0
        self.memory = deque(maxlen=500)

    def state_dict(self):
        return {"at": self.env.at, "epsilon": self.epsilon, "memory": list(self.memory)}

    def load_state_dict(self, state):
        self.env.at, self.epsilon = state["at"], state["epsilon"]
        self.state = self.env.observe()
        self.memory.extend(state["memory"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--tau", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    checkpoints.add_options(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    random.seed(args.seed)

    env = Chain()
    agent = Agent(env)
    memory = agent.memory
    q = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
    q.register_buffer("bias", torch.zeros(2))
    target = copy.deepcopy(q)
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    parts = {"q": q, "target": target, "optimizer": optimizer, "agent": agent}
    updates = checkpoints.load(args, **parts)
    while updates < args.steps:
        if random.random() < agent.epsilon:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = q(agent.state.unsqueeze(0)).argmax().item()
        following, reward, done = env.step(action)
        memory.append((agent.state, action, reward, following, done))
        agent.state = env.reset() if done else following
        agent.epsilon = max(0.05, agent.epsilon * 0.995)
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
        print(f"update {updates} loss {loss.item():.6f} epsilon {agent.epsilon:.3f}")
        checkpoints.save(args, updates, **parts)


if __name__ == "__main__":
    main()
