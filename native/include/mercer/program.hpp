// A kernel as a short postfix program over tiles; the opcodes are those of mercer/kernels/program.py.
#pragma once

#include <cstdint>

namespace mercer {

enum class Op : int32_t { dot, sqdist, constant, add, mul, scale, shift, power, exp, tanh };

constexpr int kMaxStack = 8;
constexpr int kMaxProgram = 256;

struct Program {
    const Op* ops;
    const double* arguments;
    int length;
    bool direct;  // distances from differences, not from products, which the program then must not use
    bool uses_sqdist;

    bool uses(Op op) const {
        for (int i = 0; i < length; ++i)
            if (ops[i] == op) return true;
        return false;
    }
    bool is_dot() const { return length == 1 && ops[0] == Op::dot; }
    bool is_gaussian() const {
        return length == 3 && ops[0] == Op::sqdist && ops[1] == Op::scale && ops[2] == Op::exp && arguments[1] <= 0.0;
    }
};

}  // namespace mercer
