//! What the store takes from its surroundings: primitives, clock, randomness, threads, budget.
/// skeleton
#[derive(Clone)]
pub struct Env;
