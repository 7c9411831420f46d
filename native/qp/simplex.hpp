// The nearest point whose coordinates are at least 0 and add up to a given total.
#pragma once

#include <cstdint>

#include "kernels/simd.hpp"

namespace mercer::MERCER_ISA {

// What is below a threshold becomes 0 [Held, Wolfe & Crowder 1974]: the threshold rises to that of the coordinates
// above it, until these stay.
inline void project_onto_simplex(double* point, int64_t size, double total) {
    double most = point[0];
    for (int64_t k = 1; k < size; ++k) most = point[k] > most ? point[k] : most;
    double threshold = -total, last;  // relative to the largest, which remains: no digits are lost
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

// The same for a point whose own coordinate is given less the total: as long as a share is left there, the others are
// told to the digits of their own size, which may be far below those of the total.
inline void project_beside(double* point, int64_t size, int64_t own, double total) {
    double most = point[0];
    for (int64_t k = 1; k < size; ++k) most = point[k] > most ? point[k] : most;
    double threshold = -__builtin_inf(), last;  // relative to the largest
    do {
        last = threshold;
        double sum = point[own] - most, count = 1.0;
        for (int64_t k = 0; k < size; ++k)
            if (k != own && point[k] - most > last) sum += point[k] - most, count += 1.0;
        const double next = sum / count;
        threshold = next > last ? next : last;
    } while (threshold > last);
    const double left = total + (point[own] - most - threshold);
    if (!(left > 0.0)) {
        point[own] += total;
        project_onto_simplex(point, size, total);
        return;
    }
    for (int64_t k = 0; k < size; ++k) {
        const double rest = point[k] - most - threshold;
        point[k] = rest > 0.0 ? (rest < total ? rest : total) : 0.0;
    }
    point[own] = left < total ? left : total;
}

// beta = C e_y - t, for shares t that add up to C but for rounding: the own class takes what the others give, so that
// the sum is 0; where it has no share, the largest of the others takes what rounding has left.
inline void write_shares(const double* shares, int64_t size, int64_t own, double total, double* beta) {
    double sum = 0.0;
    int64_t largest = own == 0 ? size - 1 : 0;
    for (int64_t k = 0; k < size; ++k) {
        beta[k] = -shares[k];
        if (k == own) continue;
        sum += shares[k];
        largest = shares[k] > shares[largest] ? k : largest;
    }
    const bool all_given = shares[own] == 0.0 || sum > total;
    beta[own] = all_given ? total : sum;
    if (all_given) {
        const double left = shares[largest] + (total - sum);
        beta[largest] = left < total ? -left : -total;
    }
}

}  // namespace mercer::MERCER_ISA
