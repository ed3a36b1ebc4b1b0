//! From a position to its page: a guess from the directory, then along the links.
//!
//! Invariants: a page is used only if its fences hold the position (R6): whoever arrives at a page
//! that was split goes right, at one that was emptied or used again starts anew. A walk only ever
//! goes to pages that begin later than the one before, so damaged links cannot lead it in a ring.
//! Does not do: hold a latch beyond the judgement; the caller judges again under its own.

use crate::buffer::Pin;
use crate::error::Result;
use crate::index::Tries;
use crate::index::hash::Index;
use crate::index::hash::bucket::{Bucket, Checked, Place, is_bucket};
use crate::index::hash::code::split_code;
use crate::index::hash::meta::FIRST;

/// Where a walk goes on.
enum Step {
    Here,
    Right(u32),
    Lost,
}

impl Index {
    /// The page whose fences held `position` a moment ago, pinned.
    pub(crate) fn find(&self, position: &[u8]) -> Result<Pin> {
        let (mut tries, mut round) = (Tries::default(), 0);
        loop {
            if let Some(pin) = self.try_find(position, round)? {
                return Ok(pin);
            }
            tries.again(&self.pool, self.page(0), "links that lead nowhere")?;
            round += 1;
            rightlink_env::thread::yield_now();
        }
    }

    /// As [`Index::find`], once and without reading: `None` if a page is not in memory.
    pub(crate) fn find_in_memory(&self, position: &[u8]) -> Result<Option<Pin>> {
        let (code, _) = split_code(position);
        let Some(mut block) = self.named_in_memory(code) else { return Ok(None) };
        let mut low = Vec::new();
        loop {
            let Some(pin) = self.pool.try_pin(self.page(block)) else { return Ok(None) };
            match self.step(&pin, position, &mut low)? {
                Step::Here => return Ok(Some(pin)),
                Step::Right(right) => block = right,
                Step::Lost => return Ok(None),
            }
        }
    }

    /// One walk; `None` if it was overtaken by changes.
    fn try_find(&self, position: &[u8], round: u32) -> Result<Option<Pin>> {
        let (code, _) = split_code(position);
        for number in self.numbers(code) {
            let block = if number == 0 { FIRST } else { self.entry(number)? };
            if block == 0 {
                continue;
            }
            let pin = self.pin_linked(block)?;
            let mut low = Vec::new();
            match self.step(&pin, position, &mut low)? {
                Step::Here => return Ok(Some(pin)),
                Step::Right(right) => return self.walk(right, position, low),
                Step::Lost if number == 0 && round > 0 => {
                    return Err(self.corrupt(FIRST, "the first page holds no entries"));
                }
                // The bucket was emptied into its parent: look there.
                Step::Lost => {}
            }
        }
        Ok(None)
    }

    /// Along the links from `block` on, after a page that ends at `low`.
    fn walk(&self, mut block: u32, position: &[u8], mut low: Vec<u8>) -> Result<Option<Pin>> {
        loop {
            let pin = self.pin_linked(block)?;
            match self.step(&pin, position, &mut low)? {
                Step::Here => return Ok(Some(pin)),
                Step::Right(right) => block = right,
                Step::Lost => return Ok(None),
            }
        }
    }

    /// Judges a page of a walk; `low` is where it may begin at the earliest, and then where it
    /// ends.
    fn step(&self, pin: &Pin, position: &[u8], low: &mut Vec<u8>) -> Result<Step> {
        let page = pin.shared();
        if !is_bucket(page.bytes()) {
            return Ok(Step::Lost);
        }
        let mut judge = || -> Checked<Step> {
            let bucket = Bucket::open(page.bytes())?;
            if bucket.low() < low.as_slice() {
                return Ok(Step::Lost);
            }
            let place = bucket.place(position);
            low.clear();
            low.extend_from_slice(bucket.high().unwrap_or_default());
            Ok(match place {
                Place::Here => Step::Here,
                Place::Right(right) => Step::Right(right),
                Place::Lost => Step::Lost,
            })
        };
        judge().map_err(|what| self.corrupt(pin.page().block.0, what))
    }
}
