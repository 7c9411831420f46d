// Python's global interpreter lock (GIL): released while native code computes, taken back before Python is called.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

namespace mercer {

// Runs `enter`, which waits for the GIL or calls Python through its C API, and must not throw exceptions of its own.
//
// Before version 3.14, Python ends every thread that asks for the GIL while the interpreter shuts down: by
// pthread_exit, which glibc implements as an exception. Destructors, noexcept functions and handlers that do not
// rethrow cannot let that exception pass: the process would abort. So a thread that meets it sleeps here until the
// process ends, as Python 3.14 has it.
template <class Enter>
auto enter_python(Enter enter) noexcept {
    try {
        return enter();
    } catch (...) {
        for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
}

// Releases the GIL for its scope.
class ReleasedGil {
  public:
    ReleasedGil() noexcept : state_(PyEval_SaveThread()) {}
    ~ReleasedGil() {
        enter_python([this] { PyEval_RestoreThread(state_); });
    }
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;

  private:
    PyThreadState* state_;
};

// Holds the GIL for its scope, within the scope of a ReleasedGil.
class ScopedGil {
  public:
    ScopedGil() noexcept : state_(enter_python(PyGILState_Ensure)) {}
    ~ScopedGil() { PyGILState_Release(state_); }
    ScopedGil(const ScopedGil&) = delete;
    ScopedGil& operator=(const ScopedGil&) = delete;

  private:
    PyGILState_STATE state_;
};

}  // namespace mercer
