"""Tests a model whose requests bring sparse matrices, which stay in variants within one graph."""
import json
import random

import small_models
from support import Case, Server

RUNS = 60  # enough runs for tier 1, in which code is compiled for a shape that has occurred twice


def sparse(draw, n, m, diagonal=None):
    """Returns the rows of a random matrix and its coordinates in order."""
    rows = [[draw.choice((0, 0, 1, -2, 3)) for _ in range(m)] for _ in range(n)]
    rows[-1][0] = rows[-1][0] or 2  # so that there are indices, without which JSON has no shape of two dimensions
    if diagonal:
        rows = [[rows[max(i, k)][min(i, k)] if i != k else diagonal for k in range(m)] for i in range(n)]
    where = [[i, k] for i in range(n) for k in range(m) if rows[i][k]]
    return rows, {"indices": where, "values": [float(rows[i][k]) for i, k in where], "shape": [n, m]}


def product(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


class SparseMatrices(Case):
    def setUp(self):
        super().setUp()
        small_models.write_csr(self.path("models/csr/1"))

    def ask(self, server, signature, inputs):
        return server.post("/v1/models/csr:predict", {"signature_name": signature, "inputs": inputs})

    def answer(self, server, signature, inputs):
        status, body = self.ask(server, signature, inputs)
        self.assertEqual(status, 200, body)
        return json.loads(body)["outputs"]

    def check_factor(self, server, draw, n):
        rows, inputs = sparse(draw, n, n, diagonal=4 * n)
        order = draw.sample(range(n), n) if draw.random() < 0.5 else self.answer(server, "order", inputs)
        self.assertEqual(sorted(order), list(range(n)))
        lower = self.answer(server, "factor", inputs | {"given": order})
        for i, row in enumerate(product(lower, [list(column) for column in zip(*lower)])):
            for k, x in enumerate(row):
                self.assertAlmostEqual(x, rows[order[i]][order[k]], delta=1e-3)

    def test_products_and_factors_of_matrices_that_change(self):
        for flags in ((), ("--specialise=off",)):
            with self.subTest(flags=flags), Server(f"--models={self.path('models')}", *flags) as server:
                draw = random.Random(5)
                for _ in range(RUNS):
                    turn, n, m = draw.choice(("multiply", "gram", "factor")), draw.randint(1, 5), draw.randint(1, 4)
                    rows, inputs = sparse(draw, n, m)
                    if turn == "multiply":
                        dense = [[float(draw.randint(-3, 3)) for _ in range(2)] for _ in range(m)]
                        got = self.answer(server, turn, inputs | {"dense": dense})
                        self.assertEqual(got, product(rows, dense))
                    elif turn == "gram":
                        self.assertEqual(self.answer(server, turn, inputs), product(rows, [list(c) for c in zip(*rows)]))
                    else:
                        self.check_factor(server, draw, n)

    def test_matrices_that_do_not_fit_are_refused(self):
        with Server(f"--models={self.path('models')}") as server:
            good = {"indices": [[0, 1], [1, 0]], "values": [2.0, 3.0], "shape": [2, 2]}
            for signature, wrong, reason in (
                    ("multiply", {"indices": [[0, 1], [2, 0]]}, "indices[1, :] = [2, 0] is out of bounds"),
                    ("multiply", {"values": [2.0]}, "Number of elements in index (2) and values (1) do not match."),
                    ("multiply", {"shape": [2, 3]}, "Inner product dimensions of A and B do not agree."),
                    ("multiply", {"shape": [2**40, 2]}, "must be <= Int32Max"),
                    ("factor", {"given": [1, 1]}, "element 1 of the permutation is 1"),
                    ("factor", {"given": [0, 1]}, "Sparse Cholesky factorization failed for batch index 0.")):
                extra = {"dense": [[1.0], [10.0]]} if signature == "multiply" else {}
                status, body = self.ask(server, signature, good | extra | wrong)
                self.assertEqual(status, 400, body)
                self.assertIn(reason, json.loads(body)["error"])
                self.assertEqual(self.answer(server, "multiply", good | {"dense": [[1.0], [10.0]]}), [[20.0], [3.0]])
