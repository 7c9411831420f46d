"""Pegasos as its steps are written in mercer.solvers.rows.pegasos: w is stored, and shrunk, in full."""

import numpy as np


def run(rows, codes, weights, factors, order, n_classes, steps):
    """Return the last and the average weights (n_machines, p + 1), and hinge loss and error of each row."""
    X = np.column_stack([rows, np.full(len(rows), steps.constant)])
    machines = [1] if n_classes == 2 else range(n_classes)
    signs = np.array([np.where(codes == machine, 1.0, -1.0) for machine in machines])
    others = np.where(signs > 0.0, factors[codes], factors[0] if n_classes == 2 else 1.0)
    charges = weights * others
    w, total = np.zeros((len(signs), X.shape[1])), np.zeros((len(signs), X.shape[1]))
    t = charged = mass = 0.0
    losses = []
    for first in range(0, len(order), steps.batch_size):
        batch = order[first : first + steps.batch_size]
        y, x = signs[:, batch], X[batch]
        machine = total / mass if steps.averages and mass else w
        for z, sign, code in zip((machine @ x.T).T, y.T, codes[batch], strict=True):
            guess = int(z[0] > 0.0) if n_classes == 2 else int(z.argmax())
            losses.append((np.maximum(0.0, 1.0 - sign * z).sum(), float(guess != code)))
        violates = y * (w @ x.T) < 1.0
        weight = weights[batch].sum()
        t, charged = t + weight, charged + charges[:, batch].sum(axis=1)
        eta = 1.0 / (steps.alpha * t)
        w = (1.0 - weight / t) * w + eta * (violates * charges[:, batch] * y) @ x
        if steps.projects:
            radius = np.sqrt(charged / t / steps.alpha)
            w = w * np.minimum(1.0, radius / np.maximum(np.linalg.norm(w, axis=1), 1e-300))[:, None]
        total, mass = total + weight * t * w, mass + weight * t
    hinge, wrong = np.array(losses).T
    return w, total / mass, hinge, wrong
