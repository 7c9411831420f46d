#include "parallel/helper_thread.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace mercer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{2};                     // longest wait for a message of the helper
constexpr std::chrono::milliseconds kRest{500}, kLongestRest{16000};  // time without helpers after a slow one
constexpr int64_t kTrial = 128;                // steps of a trial without the helper (at least), then with it
constexpr int kPauses = 256;                   // pauses before the clock is read, and before a yield
constexpr uint64_t kLast = uint64_t{1} << 63;  // mark of the last message to the helper
constexpr uint64_t kEnd = ~uint64_t{0};        // number that says that no message follows

Clock::rep now() { return Clock::now().time_since_epoch().count(); }
constexpr Clock::rep ticks(Clock::duration time) { return time.count(); }

// A helper that shares its processor with another thread is interrupted, and the caller waits for it. Then no helper is
// started for some time, and for twice as long if the next helper is interrupted soon after.
std::atomic<Clock::rep> rests_until{0}, rest{0};

void begin_rest() {
    const Clock::rep time = now(), last = rest.load();
    if (time < rests_until.load()) return;  // another thread has begun the rest
    const bool is_soon = last > 0 && time - rests_until.load() < last;
    rest.store(is_soon ? std::min(2 * last, ticks(kLongestRest)) : ticks(kRest));
    rests_until.store(time + rest.load());
}

// A short pause between two reads of a shared number.
void pause() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Waits until `has_come()` is true, for kPatience at most; returns whether it is true.
template <class HasCome>
bool comes_soon(HasCome has_come) {
    Clock::rep until = 0;
    for (int i = 1; !has_come(); ++i) {
        pause();
        if (i % kPauses != 0) continue;
        if (until == 0) until = now() + ticks(kPatience);
        if (now() >= until) return false;
    }
    return true;
}

}  // namespace

HelperThread::HelperThread(bool is_wanted, Work work, void* context) : work_(work), context_(context) {
    if (is_wanted && now() >= rests_until.load()) aside_.emplace(serve, this);
}

HelperThread::~HelperThread() { dismiss(); }

bool HelperThread::is_here() const { return is_here_.load(std::memory_order_acquire); }

bool HelperThread::joins(int64_t n_steps) {
    if (n_steps == 0) began_ = Clock::now();
    if (n_sent_ == 0) {
        if (n_steps < kTrial || !is_here()) return false;
        n_alone_ = n_steps, joined_ = Clock::now();
        return true;
    }
    if (n_steps == n_alone_ + kTrial)
        leaves_ = leaves_ || (Clock::now() - joined_) * n_alone_ > (joined_ - began_) * kTrial;
    return false;
}

void HelperThread::write(Line* lines, uint64_t number, uint64_t mark, const void* message, std::size_t size) {
    Line& line = lines[number % 2];
    std::memcpy(line.content, message, size);
    line.number.store(number | mark, std::memory_order_release);
}

void HelperThread::send_start(const void* message, std::size_t size) { write(sent_, ++n_sent_, 0, message, size); }

const void* HelperThread::exchange(const void* message, std::size_t size) {
    const bool is_last = leaves_;
    write(sent_, ++n_sent_, is_last ? kLast : 0, message, size);
    const Line& line = answered_[n_sent_ % 2];
    const auto has_come = [&] { return line.number.load(std::memory_order_acquire) == n_sent_; };
    if (!comes_soon(has_come)) {
        while (!has_come()) std::this_thread::yield();
        leaves_ = true;
        begin_rest();
    }
    if (is_last) dismiss();
    return line.content;
}

const void* HelperThread::first_message() { return receive(); }

const void* HelperThread::exchange_back(const void* message, std::size_t size) {
    write(answered_, n_received_ + 1, 0, message, size);
    return receive();
}

const void* HelperThread::receive() {
    const Line& line = sent_[++n_received_ % 2];
    uint64_t number = line.number.load(std::memory_order_acquire);
    for (int i = 1; number != n_received_; number = line.number.load(std::memory_order_acquire), ++i) {
        if (number == kEnd || number == (n_received_ | kLast))
            return nullptr;  // kEnd may come before the expected number
        pause();
        if (i % kPauses == 0) std::this_thread::yield();
    }
    return line.content;
}

void HelperThread::serve(void* context, int64_t) {
    auto* self = static_cast<HelperThread*>(context);
    self->is_here_.store(true, std::memory_order_release);
    self->work_(self->context_);
}

void HelperThread::dismiss() {
    for (Line& line : sent_) line.number.store(kEnd, std::memory_order_release);
    aside_.reset();
    is_here_.store(false, std::memory_order_relaxed);
}

}  // namespace mercer
