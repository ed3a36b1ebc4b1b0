#!/usr/bin/env python3
"""Roots, powers, exponentials and logarithms of random numerics, the same to `rightlink serve` and to
PostgreSQL 15: every digit, scale and error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/powers.py [--statements 50000] [--seed 1] [--binary FILE] [--show 20]

Numbers are short and long, large and small, near one, and those that are none.

Does not do: the functions over floats, whose last digits are the platform's.
"""

import sys

import peer


class Maker(peer.Chooser):
    """Expressions; equal seeds make equal ones."""

    def digits(self, count):
        return "".join(self.random.choice("0123456789") for _ in range(count))

    def number(self):
        whole = self.digits(self.pick(1, 1, 2, 3, 5, 9, 20))
        behind = self.digits(self.pick(0, 0, 1, 2, 5, 9, 30))
        text = f"{whole}.{behind}"
        near = self.pick("1.", "0.", "0." + "9" * self.random.randint(1, 30)) + "0" * (
            self.random.randint(0, 40)) + self.digits(2)
        far = f"{self.digits(3)}e{self.random.randint(-300, 300)}"
        sign = self.pick("", "", "", "-")
        text = self.pick(text, text, text, near, far, self.pick("0", "1", "10", "0.00", "1.000"))
        text = self.pick(*[text] * 30, "NaN", "Infinity")
        return f"'{sign}{text}'::numeric"

    def small(self):
        whole = self.random.randint(-40, 40)
        return self.pick(f"({whole})::numeric", f"'{whole}.{self.digits(2)}'::numeric",
                         f"({self.random.randint(-100000, 100000)})::numeric", self.number())

    def expression(self):
        a, b = self.number(), self.number()
        return self.pick(
            f"sqrt({a})", f"exp({self.small()})", f"exp({a})", f"ln({a})", f"log({a})",
            f"log({a}, {b})", f"power({a}, {self.small()})", f"{a} ^ {self.small()}",
            f"power({a}, {b})")


if __name__ == "__main__":
    sys.exit(peer.compare(__doc__, lambda seed: peer.expressions(Maker(seed))))
