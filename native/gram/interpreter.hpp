// Runs a kernel's program over one tile of inner products, in place.
#pragma once

#include "gram/program.hpp"
#include "gram/simd.hpp"

namespace mercer::MERCER_ISA {

// Data of the rows and columns of a tile, for each pass: norms (0 if a pass needs no norms) and <centre, x> (null
// without a centre).
template <class Real>
struct TileSides {
    const Real *left_norms, *left_offsets;
    int64_t left_stride;  // distance between the norms (and offsets) of two passes
    const Real *right_norms, *right_offsets;
    int64_t right_stride;
    const double* centre_norms;  // for each pass, ||centre||^2 over its features

    TileSides of(int64_t pass) const {
        return {left_norms + pass * left_stride,
                left_offsets ? left_offsets + pass * left_stride : nullptr,
                left_stride,
                right_norms + pass * right_stride,
                right_offsets ? right_offsets + pass * right_stride : nullptr,
                right_stride,
                centre_norms ? centre_norms + pass : nullptr};
    }
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

// ||x - z||^2 from <x, z>, or another distance from its shared term. Negative results of rounding become 0; NaN from
// overflow stays NaN.
template <class Real>
MERCER_INLINE VecOf<Real> distance(VecOf<Real> shared, Real left_norm, VecOf<Real> right_norms) {
    return max(VecOf<Real>{}, left_norm + right_norms - 2 * shared);
}

// out[r][c] = make(tile[r][c], r, c), a vector of columns at a time; c is its first column.
template <class Real, class Make>
MERCER_INLINE void make_tile(const Real* tile, int n_rows, int n_columns, Real* out, Make make) {
    for (int r = 0; r < n_rows; ++r)
        for (int c = 0; c < n_columns; c += kLanesOf<Real>)
            store(out + r * n_columns + c, make(load_vector(tile + r * n_columns + c), r, c));
}

// Computes exp(scale D ln 2) for scale <= 0 and the distances D of a tile. The values replace `out`, or are added to it
// if kAdds.
template <class Real, bool kAdds = false>
void gaussian_tile(Real scale, const TileSides<Real>& sides, int n_rows, int n_columns, const Real* tile, Real* out) {
    const Real *left = sides.left_norms, *right = sides.right_norms;
    make_tile<Real>(tile, n_rows, n_columns, out, [=](VecOf<Real> shared, int r, int c) MERCER_LAMBDA_INLINE {
        const VecOf<Real> value = exp2_nonpositive(scale * distance<Real>(shared, left[r], load_vector(right + c)));
        return kAdds ? load_vector(out + r * n_columns + c) + value : value;
    });
}

template <class Real, class Operation>
MERCER_INLINE void map_tile(Real* top, int size, Operation operation) {
    for (int i = 0; i < size; i += kLanesOf<Real>) store(top + i, operation(load_vector(top + i)));
}

// tiles: on entry one tile of sums for each pass, tile_stride apart; on return the first tile holds the kernel values.
// stack: memory for kMaxStack tiles of the same size.
template <class Real>
void run_program(const Program& program, const TileSides<Real>& all_sides, int n_rows, int n_columns, Real* tiles,
                 int64_t tile_stride, Real* stack) {
    using V = VecOf<Real>;
    constexpr int kLane = kLanesOf<Real>;
    auto gaussian_scale = [&](int i) { return static_cast<Real>(program.arguments[i + 1] * Exponent<double>::kLog2e); };
    if (program.length == 3 && program.is_gaussian_at(0))
        return gaussian_tile(gaussian_scale(0), all_sides, n_rows, n_columns, tiles, tiles);
    if (program.is_dot()) return;
    const int size = n_rows * n_columns;
    Real* next = stack;
    for (int i = 0; i < program.length; ++i) {
        const Real argument = static_cast<Real>(program.arguments[i]);
        Real* top = next - size;
        const int64_t pass = is_pass(program.ops[i]) ? static_cast<int64_t>(program.arguments[i]) : 0;
        const Real* tile = tiles + pass * tile_stride;
        const TileSides<Real> sides = all_sides.of(pass);
        auto norms = [&](int r, int c)
                         MERCER_LAMBDA_INLINE { return sides.left_norms[r] + load_vector(sides.right_norms + c); };
        switch (program.ops[i]) {
            case Op::dot:
            case Op::minimum:
                if (sides.left_offsets == nullptr) {
                    make_tile<Real>(tile, n_rows, n_columns, next, [](V v, int, int) { return v; });
                } else {
                    const Real centre_norm = static_cast<Real>(*sides.centre_norms);
                    make_tile<Real>(tile, n_rows, n_columns, next, [&](V v, int r, int c) MERCER_LAMBDA_INLINE {
                        return v + ((sides.left_offsets[r] + load_vector(sides.right_offsets + c)) - centre_norm);
                    });
                }
                next += size;
                break;
            case Op::sum:
                make_tile<Real>(tile, n_rows, n_columns, next,
                                [&](V v, int r, int c) MERCER_LAMBDA_INLINE { return norms(r, c) - 2 * v; });
                next += size;
                break;
            case Op::sqdist:
            case Op::l1:
            case Op::chi2:
            case Op::hamming:
                // If a tile lies below on the stack, operation i + 3 exists, because a program ends with one tile.
                if (program.is_gaussian_at(i) && next != stack && program.ops[i + 3] == Op::add) {
                    gaussian_tile<Real, true>(gaussian_scale(i), sides, n_rows, n_columns, tile, top);
                    i += 3;
                    break;
                }
                if (program.is_gaussian_at(i)) {
                    gaussian_tile(gaussian_scale(i), sides, n_rows, n_columns, tile, next);
                    i += 2;
                } else {
                    make_tile<Real>(tile, n_rows, n_columns, next, [&](V v, int r, int c) MERCER_LAMBDA_INLINE {
                        return distance<Real>(v, sides.left_norms[r], load_vector(sides.right_norms + c));
                    });
                }
                next += size;
                break;
            case Op::tanimoto:
            case Op::dice: {
                // Both quotients are 1 for two rows of zeros.
                const bool is_dice = program.ops[i] == Op::dice;
                make_tile<Real>(tile, n_rows, n_columns, next, [&](V v, int r, int c) MERCER_LAMBDA_INLINE {
                    const V sum = norms(r, c), shared = is_dice ? v + v : v, all = is_dice ? sum : sum - v;
                    return sum == V{} ? V{} + 1 : shared / all;
                });
                next += size;
                break;
            }
            case Op::cosine:
                make_tile<Real>(tile, n_rows, n_columns, next, [&](V v, int r, int c) MERCER_LAMBDA_INLINE {
                    const V squares = sides.left_norms[r] * load_vector(sides.right_norms + c);
                    return squares == V{} ? V{} : v / sqrt(squares);
                });
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
            case Op::sqrt:
                map_tile(top, size, [](V v) { return sqrt(max(V{}, v)); });
                break;
            case Op::log:
                map_tile(top, size, [](V v) { return log(v); });
                break;
        }
    }
    for (int e = 0; e < size; e += kLane) store(tiles + e, load_vector(stack + e));
}

}  // namespace mercer::MERCER_ISA
