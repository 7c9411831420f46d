// The Python module: its parts, and the instruction sets of this processor.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/binding.hpp"
#include "gram/dispatch.hpp"
#include "parallel/parallel.hpp"

using namespace mercer;

NB_MODULE(_core, m) {
    // Leak warnings are off, because daemon threads or reference cycles may keep objects until the process ends.
    nb::set_leak_warnings(false);
    m.doc() = "Native core of mercer: kernel tiles, block solvers, working sets.";

    bind_tiles(m);
    bind_variable_tiles(m);
    bind_strings(m);
    bind_svmlight(m);
    bind_gather(m);
    bind_pegasos(m);
    bind_points(m);
    bind_solvers(m);
    bind_block(m);
    bind_dual_descent(m);
    bind_column_descent(m);
    bind_machines(m);
    bind_leave_out(m);
    bind_linear(m);
    bind_lists(m);
    bind_sparse_form(m);
    bind_bit_form(m);
    bind_integer_form(m);
    bind_spread(m);
    m.def("thread_limit", &mercer_get_num_threads);
    m.def("best_isa", [] { return std::string(best_implementation().name); });
    m.def(
        "has_isa", [](const std::string& name) { return find_implementation(name.c_str()) != nullptr; },
        nb::arg("name"));
    m.def("counts_bits", [](const std::string& isa) { return implementation(isa).counts_bits; }, nb::arg("isa"));
    m.def(
        "multiplies_integers", [](const std::string& isa) { return implementation(isa).integer_tile != nullptr; },
        nb::arg("isa"));
}
