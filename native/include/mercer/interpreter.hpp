// Runs a kernel's program over one tile of inner products, in place.
#pragma once

#include "mercer/program.hpp"
#include "mercer/simd.hpp"

namespace mercer::MERCER_ISA {

// What a tile knows about its rows and columns: squared norms and <centre, x> of each.
struct TileSides {
    const double *left_norms, *right_norms, *left_offsets, *right_offsets;
    double centre_norm;  // ||centre||^2
};

MERCER_INLINE Vec integer_power(Vec base, int64_t exponent) {
    Vec result = broadcast(1.0);
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}

// ||x - z||^2 from <x, z>; rounding must not make it negative, and what overflows must stay NaN.
MERCER_INLINE Vec squared_distance(Vec dot, double left_norm, Vec right_norms) {
    return max(Vec{}, left_norm + right_norms - 2.0 * dot);
}

inline void gaussian_tile(double scale, const TileSides& sides, int n_rows, int n_columns, double* tile) {
    for (int r = 0; r < n_rows; ++r)
        for (int c = 0; c < n_columns; c += kLanes) {
            double* at = tile + r * n_columns + c;
            store(at, exp(scale * squared_distance(load(at), sides.left_norms[r], load(sides.right_norms + c))));
        }
}

template <class Operation>
MERCER_INLINE void map_tile(double* top, int size, Operation operation) {
    for (int i = 0; i < size; i += kLanes) store(top + i, operation(load(top + i)));
}

// tile: on entry the products of the packed (centred) rows, on return kernel values.
// stack: room for kMaxStack tiles of the same size.
inline void run_program(const Program& program, const TileSides& sides, int n_rows, int n_columns, double* tile,
                        double* stack) {
    if (program.is_gaussian()) return gaussian_tile(program.arguments[1], sides, n_rows, n_columns, tile);
    if (program.is_dot()) return;
    const int size = n_rows * n_columns;
    double* next = stack;
    for (int i = 0; i < program.length; ++i) {
        const double argument = program.arguments[i];
        double* top = next - size;
        switch (program.ops[i]) {
            case Op::dot:
                for (int r = 0; r < n_rows; ++r)
                    for (int c = 0; c < n_columns; c += kLanes)
                        store(next + r * n_columns + c,
                              load(tile + r * n_columns + c) +
                                  ((sides.left_offsets[r] + load(sides.right_offsets + c)) - sides.centre_norm));
                next += size;
                break;
            case Op::sqdist:
                for (int r = 0; r < n_rows; ++r)
                    for (int c = 0; c < n_columns; c += kLanes)
                        store(next + r * n_columns + c,
                              squared_distance(load(tile + r * n_columns + c), sides.left_norms[r],
                                               load(sides.right_norms + c)));
                next += size;
                break;
            case Op::constant:
                map_tile(next, size, [=](Vec) { return broadcast(argument); });
                next += size;
                break;
            case Op::add:
            case Op::mul: {
                double* below = top - size;
                const bool adds = program.ops[i] == Op::add;
                for (int e = 0; e < size; e += kLanes) {
                    const Vec a = load(below + e), b = load(top + e);
                    store(below + e, adds ? a + b : a * b);
                }
                next = top;
                break;
            }
            case Op::scale:
                map_tile(top, size, [=](Vec v) { return argument * v; });
                break;
            case Op::shift:
                map_tile(top, size, [=](Vec v) { return argument + v; });
                break;
            case Op::power:
                map_tile(top, size, [=](Vec v) { return integer_power(v, static_cast<int64_t>(argument)); });
                break;
            case Op::exp:
                map_tile(top, size, [](Vec v) { return exp(v); });
                break;
            case Op::tanh:
                map_tile(top, size, [](Vec v) { return tanh(v); });
                break;
        }
    }
    for (int e = 0; e < size; e += kLanes) store(tile + e, load(stack + e));
}

}  // namespace mercer::MERCER_ISA
