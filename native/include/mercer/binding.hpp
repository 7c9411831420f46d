// What the files of bindings share.
#pragma once

#include <nanobind/nanobind.h>

namespace mercer {

inline void require(bool condition, const char* message) {
    if (!condition) throw nanobind::value_error(message);
}

void bind_strings(nanobind::module_& module);
void bind_leave_out(nanobind::module_& module);

}  // namespace mercer
