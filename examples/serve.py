"""Answer requests from a queue with one model, in batches of whatever is waiting."""

import argparse
import queue
import threading

import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self, items=500, width=24):
        super().__init__()
        self.items = nn.EmbeddingBag(items, width)
        self.score = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("popularity", torch.rand(items))

    def forward(self, history):
        return self.score(self.items(history)).squeeze(1) + self.popularity[history].mean(1)


def serve(model, requests, answers):
    model.eval()
    while True:
        batch = [requests.get()]
        while not requests.empty() and len(batch) < 4:
            batch.append(requests.get())
        work = [item for item in batch if item is not None]
        if work:
            with torch.no_grad():
                scores = model(torch.stack([history for _, history in work]))
            for (number, _), score in zip(work, scores.tolist()):
                answers[number] = score
        if len(work) < len(batch):
            return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100, help="requests")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = Ranker()
    model.load_state_dict(model.state_dict())
    requests, answers = queue.Queue(), {}
    for number in range(args.steps):
        requests.put((number, torch.randint(500, (10,))))
    requests.put(None)
    worker = threading.Thread(target=serve, args=(model, requests, answers))
    worker.start()
    worker.join()
    for number in sorted(answers):
        print(f"request {number} score {answers[number]:.6f}")


if __name__ == "__main__":
    main()
