#!/usr/bin/env python3
"""Random regular expressions, the same to `rightlink serve` and to PostgreSQL 15: every answer and
every error code must be equal.

    apt-get install postgresql-15; pip install 'psycopg[binary]'
    cargo build --release -p rightlink-cli
    bench/postgres/patterns.py [--statements 50000] [--seed 1] [--binary FILE] [--show 20]

Patterns are choices, sequences, groups that hold something or not, repetitions of every kind that
prefer much or little, classes, and the ends of texts and words. Texts have few letters, so that
much matches in several ways. Functions are those of texts and patterns, with their options.

Does not do: back-references and constraints that look ahead or behind, which are refused by name.
"""

import sys

import peer
from peer import literal


class Maker(peer.Chooser):
    """Makes expressions; equal seeds make equal ones."""

    def text(self):
        letters = self.pick("ab", "abc", "aB1 ", "aéb\n", "ab_%(")
        return "".join(self.random.choice(letters) for _ in range(self.random.randint(0, 9)))

    def atom(self, levels):
        kind = self.random.random()
        if levels == 0 or kind < 0.5:
            return self.pick("a", "b", "c", "a", "b", ".", "[ab]", "[^a]", "\\w", "\\d", "\\s", "B",
                             "é", "[[:alpha:]]", "1", "ab", "[b-c]", "\\W")
        if kind < 0.85:
            return f"({self.choices(levels - 1)})"
        if kind < 0.95:
            return f"(?:{self.choices(levels - 1)})"
        return self.pick("^", "$", "\\m", "\\M", "\\y", "()", "\\A", "\\Z")

    def repeated(self, levels):
        atom = self.atom(levels)
        if self.random.random() < 0.45 or atom[0] in "^$" or atom in ("\\m", "\\M", "\\y", "\\A", "\\Z"):
            return atom
        mark = self.pick("*", "+", "?", "{2}", "{1,2}", "{0,1}", "{1,}", "{2,3}", "{1}", "{1,1}", "{0,2}")
        return atom + mark + self.pick("", "", "?")

    def sequence(self, levels):
        return "".join(self.repeated(levels) for _ in range(self.pick(1, 2, 2, 3)))

    def choices(self, levels):
        count = self.pick(1, 1, 1, 2, 2, 3) if levels < 2 else 1
        return "|".join(self.sequence(levels) for _ in range(count))

    def pattern(self):
        front = self.pick("", "", "", "", "", "", "(?i)", "(?n)", "***:")
        return literal(front + self.choices(self.pick(0, 1, 1, 2)))

    def flags(self):
        return literal("".join(self.random.sample("ginpswtc", self.random.randint(0, 2))))

    def similar(self):
        return literal("".join(self.pick("a", "b", "%", "_", "(a|b)", "[ab]", "a+", "b*", "(ab){1,2}",
                                         ".", "\\a", "^") for _ in range(self.random.randint(0, 4))))

    def expression(self):
        text, pattern = literal(self.text()), self.pattern()
        number = lambda: self.pick("1", "1", "2", "3", "0", "9")
        return self.pick(
            lambda: f"regexp_match({text}, {pattern})",
            lambda: f"regexp_match({text}, {pattern}, {self.flags()})",
            lambda: f"regexp_matches({text}, {pattern}, 'g')",
            lambda: f"regexp_replace({text}, {pattern}, '<\\1|\\&>', 'g')",
            lambda: f"regexp_replace({text}, {pattern}, '[\\2\\\\]', {self.flags()})",
            lambda: f"regexp_replace({text}, {pattern}, 'x', {number()}, {number()})",
            lambda: f"regexp_split_to_array({text}, {pattern})",
            lambda: f"regexp_split_to_table({text}, {pattern}, {self.flags()})",
            lambda: f"regexp_count({text}, {pattern}, {number()})",
            lambda: f"regexp_instr({text}, {pattern}, {number()}, {number()}, {self.pick('0', '1', '2')})",
            lambda: f"regexp_substr({text}, {pattern}, {number()}, {number()}, '', {number()})",
            lambda: f"regexp_like({text}, {pattern}, {self.flags()})",
            lambda: f"substring({text} from {pattern})",
            lambda: f"{text} ~ {pattern}",
            lambda: f"{text} !~* {pattern}",
            lambda: f"{text} similar to {self.similar()}",
            lambda: f"substring({text} from {self.similar()[:-1]}#\"%#\"' for '#')",
        )()


if __name__ == "__main__":
    sys.exit(peer.compare(__doc__, lambda seed: peer.expressions(Maker(seed))))
