// Runs a kernel's program over one tile of inner products, in place.
#pragma once

#include "mercer/program.hpp"
#include "mercer/simd.hpp"

namespace mercer::MERCER_ISA {

// What a tile knows about its rows and columns: squared norms and <centre, x> of each.
template <class Real>
struct TileSides {
    const Real *left_norms, *right_norms, *left_offsets, *right_offsets;
    Real centre_norm;  // ||centre||^2
};

template <class V>
MERCER_INLINE V integer_power(V base, int64_t exponent) {
    V result = V{} + 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}

// ||x - z||^2 from <x, z>; rounding must not make it negative, and what overflows must stay NaN.
template <class Real>
MERCER_INLINE VecOf<Real> squared_distance(VecOf<Real> dot, Real left_norm, VecOf<Real> right_norms) {
    return max(VecOf<Real>{}, left_norm + right_norms - 2 * dot);
}

// exp(scale d^2) for scale <= 0, with scale given as a multiple of ln 2.
template <class Real>
void gaussian_tile(Real scale, const TileSides<Real>& sides, int n_rows, int n_columns, Real* tile) {
    for (int r = 0; r < n_rows; ++r)
        for (int c = 0; c < n_columns; c += kLanesOf<Real>) {
            Real* at = tile + r * n_columns + c;
            store(at, exp2_nonpositive(scale * squared_distance<Real>(load_vector(at), sides.left_norms[r],
                                                                      load_vector(sides.right_norms + c))));
        }
}

template <class Real, class Operation>
MERCER_INLINE void map_tile(Real* top, int size, Operation operation) {
    for (int i = 0; i < size; i += kLanesOf<Real>) store(top + i, operation(load_vector(top + i)));
}

// tile: on entry the products of the packed (centred) rows, on return kernel values.
// stack: room for kMaxStack tiles of the same size.
template <class Real>
void run_program(const Program& program, const TileSides<Real>& sides, int n_rows, int n_columns, Real* tile,
                 Real* stack) {
    using V = VecOf<Real>;
    constexpr int kLane = kLanesOf<Real>;
    if (program.is_gaussian())
        return gaussian_tile(static_cast<Real>(program.arguments[1] * Exponent<double>::kLog2e), sides, n_rows,
                             n_columns, tile);
    if (program.is_dot()) return;
    const int size = n_rows * n_columns;
    Real* next = stack;
    for (int i = 0; i < program.length; ++i) {
        const Real argument = static_cast<Real>(program.arguments[i]);
        Real* top = next - size;
        switch (program.ops[i]) {
            case Op::dot:
                for (int r = 0; r < n_rows; ++r)
                    for (int c = 0; c < n_columns; c += kLane)
                        store(next + r * n_columns + c,
                              load_vector(tile + r * n_columns + c) +
                                  ((sides.left_offsets[r] + load_vector(sides.right_offsets + c)) - sides.centre_norm));
                next += size;
                break;
            case Op::sqdist:
                for (int r = 0; r < n_rows; ++r)
                    for (int c = 0; c < n_columns; c += kLane)
                        store(next + r * n_columns + c,
                              squared_distance<Real>(load_vector(tile + r * n_columns + c), sides.left_norms[r],
                                                     load_vector(sides.right_norms + c)));
                next += size;
                break;
            case Op::constant:
                map_tile(next, size, [=](V) { return V{} + argument; });
                next += size;
                break;
            case Op::add:
            case Op::mul: {
                Real* below = top - size;
                const bool adds = program.ops[i] == Op::add;
                for (int e = 0; e < size; e += kLane) {
                    const V a = load_vector(below + e), b = load_vector(top + e);
                    store(below + e, adds ? a + b : a * b);
                }
                next = top;
                break;
            }
            case Op::scale:
                map_tile(top, size, [=](V v) { return argument * v; });
                break;
            case Op::shift:
                map_tile(top, size, [=](V v) { return argument + v; });
                break;
            case Op::power:
                map_tile(top, size, [&](V v) { return integer_power(v, static_cast<int64_t>(program.arguments[i])); });
                break;
            case Op::exp:
                map_tile(top, size, [](V v) { return exp(v); });
                break;
            case Op::tanh:
                map_tile(top, size, [](V v) { return tanh(v); });
                break;
        }
    }
    for (int e = 0; e < size; e += kLane) store(tile + e, load_vector(stack + e));
}

}  // namespace mercer::MERCER_ISA
