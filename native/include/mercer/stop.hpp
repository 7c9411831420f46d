// What bindings of solvers share: how they ask whether to stop, and what a matrix must look like.
#pragma once

#include <chrono>
#include <exception>

#include "mercer/binding.hpp"
#include "mercer/block_problem.hpp"

namespace mercer {

// Asks a Python function now and then whether to stop, for threads that do so wait for each other; what it raises is
// kept for later, for native code must not be left by it.
struct Stop {
    static constexpr std::chrono::milliseconds kBetween{10};

    nb::object question;
    std::exception_ptr raised{};
    bool answered = false;                          // that it shall
    std::chrono::steady_clock::time_point asked{};  // last; at first, long ago

    static bool ask(void* context) {
        auto* self = static_cast<Stop*>(context);
        const auto now = std::chrono::steady_clock::now();
        if (self->answered || now - self->asked < kBetween) return self->answered;
        nb::gil_scoped_acquire locked;
        self->asked = now;
        try {
            self->answered = nb::cast<bool>(self->question());
        } catch (...) {
            self->raised = std::current_exception();
            self->answered = true;
        }
        return self->answered;
    }
};

template <class Real>
void check_padded(const MatrixOf<const Real>& matrix, int64_t size) {
    const int64_t padded = (size + kBlockPadding - 1) / kBlockPadding * kBlockPadding;
    require(static_cast<int64_t>(matrix.shape(0)) == size && static_cast<int64_t>(matrix.shape(1)) >= padded &&
                (size <= 1 || matrix.stride(0) >= padded) && (padded == 0 || matrix.stride(1) == 1),
            "the matrix must have a row per variable, padded with zeros to a multiple of 16 columns");
}

}  // namespace mercer
