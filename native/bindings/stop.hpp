// How bindings of solvers ask whether to stop.
#pragma once

#include <chrono>
#include <exception>
#include <utility>

#include "bindings/binding.hpp"

namespace mercer {

// Asks a Python function whether to stop, every 10 ms at most, for threads that take Python's lock wait for each other.
// What it raises is kept, and raised by the caller when native code has been left.
struct Stop {
    static constexpr std::chrono::milliseconds kBetween{10};

    nb::object question;
    std::exception_ptr raised{};
    bool answered = false;                          // that it shall
    std::chrono::steady_clock::time_point asked{};  // last; at first, long ago

    // What native code calls, with this as its context; null where there is nothing to ask.
    auto function() const { return question.is_none() ? nullptr : &Stop::ask; }

    // One call of native code that goes on later: what it asks is not kept, however it ends, nor what was answered.
    class Call {
      public:
        Call(Stop& stop, nb::object question) : stop_(stop) {
            stop.question = std::move(question), stop.raised = nullptr, stop.answered = false, stop.asked = {};
        }
        ~Call() { stop_.question = nb::none(); }
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;

      private:
        Stop& stop_;
    };

    void rethrow() {
        if (raised) std::rethrow_exception(std::exchange(raised, nullptr));
    }

    static bool ask(void* context) {
        auto* self = static_cast<Stop*>(context);
        const auto now = std::chrono::steady_clock::now();
        if (self->answered || self->question.is_none() || now - self->asked < kBetween) return self->answered;
        const HeldGil held;
        self->asked = now;
        try {
            const int truth = enter_python([self] { return truth_of_call(self->question.ptr()); });
            if (truth < 0) nb::raise_python_error();
            self->answered = truth != 0;
        } catch (...) {
            self->raised = std::current_exception();
            self->answered = true;
        }
        return self->answered;
    }

  private:
    // Whether what the function returns is true, also where it is NumPy's truth, which a cast refuses; -1 if it raises.
    static int truth_of_call(PyObject* function) {
        PyObject* answer = PyObject_CallNoArgs(function);
        if (answer == nullptr) return -1;
        const int truth = PyObject_IsTrue(answer);
        Py_DECREF(answer);
        return truth;
    }
};

}  // namespace mercer
