// Calls a Python function from native solvers to ask whether they should stop.
#pragma once

#include <chrono>
#include <exception>
#include <utility>

#include "bindings/binding.hpp"

namespace mercer {

// Asks a Python function whether to stop, at most every 10 ms, because threads that take the GIL wait for each other.
// An exception of the function is stored, and raised by `rethrow` after the native code has returned.
struct Stop {
    static constexpr std::chrono::milliseconds kBetween{10};

    nb::object question;
    std::exception_ptr raised{};
    bool answered = false;                          // whether the answer was to stop
    std::chrono::steady_clock::time_point asked{};  // time of the last call of the function

    // The function for native code, with `this` as its context; null if there is no Python function.
    auto function() const { return question.is_none() ? nullptr : &Stop::ask; }

    // The scope of one native call of a solver that continues in later calls. The answer is reset at its start, and the
    // Python function is released at its end.
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
        const ScopedGil gil;
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
    // Returns the truth value of the function's result, or -1 if it raises. Unlike a cast, it accepts NumPy's bool.
    static int truth_of_call(PyObject* function) {
        PyObject* answer = PyObject_CallNoArgs(function);
        if (answer == nullptr) return -1;
        const int truth = PyObject_IsTrue(answer);
        Py_DECREF(answer);
        return truth;
    }
};

}  // namespace mercer
