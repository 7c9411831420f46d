// A kernel is a short postfix program over tiles. The opcodes are those of src/mercer/kernels/program.py.
#pragma once

#include <cstdint>

namespace mercer {

enum class Op : int32_t {
    dot,
    sqdist,
    constant,
    add,
    mul,
    scale,
    shift,
    power,
    exp,
    tanh,
    sqrt,
    log,
    l1,
    chi2,
    hamming,
    minimum,
    sum,
    tanimoto,
    dice,
    cosine  // only for rows of bits
};

constexpr bool is_distance(Op op) { return op == Op::sqdist || op == Op::l1 || op == Op::chi2 || op == Op::hamming; }
// Quotients of the sum of minima and sums over each row alone.
constexpr bool is_overlap(Op op) { return op == Op::tanimoto || op == Op::dice; }
constexpr bool is_pass(Op op) {
    return op == Op::dot || op == Op::minimum || op == Op::sum || op == Op::cosine || is_overlap(op) || is_distance(op);
}

// The term that is summed over the features of two rows.
enum class Pairing : int32_t { product, squared_difference, l1, chi2, hamming, minimum, sum };

// One sum over the features of both rows. All operations that need the same sum share its pass.
struct Pass {
    Pairing pairing;
    const int32_t* columns;  // null: all features
    int64_t n_columns;
    bool with_norms, with_offsets;
};

constexpr int kMaxStack = 8;
constexpr int kMaxProgram = 256;

struct Program {
    const Op* ops;
    const double* arguments;  // one for each operation; the number of the pass, if the operation reads a pass
    int length;
    const Pass* passes;
    int n_passes;

    bool is_dot() const { return length == 1 && ops[0] == Op::dot; }
    // Whether operations i to i + 2 compute exp(scale D) for a distance D and scale <= 0.
    bool is_gaussian_at(int i) const {
        return i + 2 < length && is_distance(ops[i]) && ops[i + 1] == Op::scale && ops[i + 2] == Op::exp &&
               arguments[i + 1] <= 0.0;
    }
};

}  // namespace mercer
