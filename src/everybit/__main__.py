"""`python -m everybit`, also under `torchrun -m everybit`."""

from everybit.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
