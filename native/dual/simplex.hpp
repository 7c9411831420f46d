// Projection onto the points with nonnegative coordinates and a given sum.
#pragma once

#include <cstdint>

#include "gram/simd.hpp"

namespace mercer::MERCER_ISA {

// Coordinates below a threshold become 0 [Held, Wolfe & Crowder 1974]. The threshold rises to the value for the
// coordinates above it, until these do not change.
inline void project_onto_simplex(double* point, int64_t size, double total) {
    double most = point[0];
    for (int64_t k = 1; k < size; ++k) most = point[k] > most ? point[k] : most;
    double threshold = -total, last;  // relative to the largest coordinate, so that no digits are lost
    do {
        last = threshold;
        double sum = 0.0, count = 0.0;
        for (int64_t k = 0; k < size; ++k)
            if (point[k] - most > last || point[k] == most) sum += point[k] - most, count += 1.0;
        const double next = (sum - total) / count;
        threshold = next > last ? next : last;
    } while (threshold > last);
    for (int64_t k = 0; k < size; ++k) {
        const double rest = point[k] - most - threshold;
        point[k] = rest > 0.0 ? (rest < total ? rest : total) : 0.0;
    }
}

// The same for a point whose own coordinate is given minus the total. While the own coordinate is positive, the others
// keep full relative precision, even if they are much smaller than the total.
inline void project_beside(double* point, int64_t size, int64_t label, double total) {
    double most = point[0];
    for (int64_t k = 1; k < size; ++k) most = point[k] > most ? point[k] : most;
    double threshold = -__builtin_inf(), last;  // relative to the largest coordinate
    do {
        last = threshold;
        double sum = point[label] - most, count = 1.0;
        for (int64_t k = 0; k < size; ++k)
            if (k != label && point[k] - most > last) sum += point[k] - most, count += 1.0;
        const double next = sum / count;
        threshold = next > last ? next : last;
    } while (threshold > last);
    const double left = total + (point[label] - most - threshold);
    if (!(left > 0.0)) {
        point[label] += total;
        project_onto_simplex(point, size, total);
        return;
    }
    for (int64_t k = 0; k < size; ++k) {
        const double rest = point[k] - most - threshold;
        point[k] = rest > 0.0 ? (rest < total ? rest : total) : 0.0;
    }
    point[label] = left < total ? left : total;
}

// Writes beta = C e_y - t for shares t whose sum is C up to rounding. The own class gets minus the sum of the others,
// so that the sum is 0. If the own class has no share, the largest other class absorbs the rounding error.
inline void write_shares(const double* shares, int64_t size, int64_t label, double total, double* beta) {
    double sum = 0.0;
    int64_t largest = label == 0 ? size - 1 : 0;
    for (int64_t k = 0; k < size; ++k) {
        beta[k] = -shares[k];
        if (k == label) continue;
        sum += shares[k];
        largest = shares[k] > shares[largest] ? k : largest;
    }
    const bool all_given = shares[label] == 0.0 || sum > total;
    beta[label] = all_given ? total : sum;
    if (all_given) {
        const double left = shares[largest] + (total - sum);
        beta[largest] = left < total ? -left : -total;
    }
}

}  // namespace mercer::MERCER_ISA
