// Binding of the parser of svmlight text.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>

#include "bindings/binding.hpp"
#include "files/svmlight.hpp"

namespace mercer {

void bind_svmlight(nb::module_& m) {
    m.def(
        "parse_svmlight",
        [](const nb::bytes& text, int64_t start, int64_t first) {
            const auto size = static_cast<int64_t>(text.size());
            require(start >= 0 && start <= size, "start must lie within the text");
            require(first == 0 || first == 1, "first must be 0 or 1");
            SvmlightRows rows;
            {
                const ReleasedGil released;
                rows = parse_svmlight(text.c_str() + start, size - start, first);
            }
            const int64_t fault = rows.fault < 0 ? rows.fault : rows.fault + start;
            const bool fits_float = rows.fits_float;
            const int64_t largest = rows.largest_column;
            return nb::make_tuple(owned(std::move(rows.targets)), owned(std::move(rows.ends)),
                                  owned(std::move(rows.columns)), owned(std::move(rows.values)), largest, fits_float,
                                  fault);
        },
        nb::arg("text"), nb::arg("start"), nb::arg("first"));
}

}  // namespace mercer
