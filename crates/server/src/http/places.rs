//! A table of numbered places that grows by pieces: nothing is copied when it grows, and no old copy is left behind.

/// Places in one piece.
const PIECE: usize = 256;

/// Numbered places, each with a value.
pub struct Places<T> {
    pieces: Vec<Box<[T]>>,
    free: Vec<u32>,
    taken: usize,
}

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places {
            pieces: Vec::new(),
            free: Vec::new(),
            taken: 0,
        }
    }
}

impl<T: Default> Places<T> {
    /// Takes a place whose value is the default one.
    pub fn take(&mut self) -> usize {
        self.taken += 1;
        if let Some(place) = self.free.pop() {
            return place as usize;
        }
        let place = self.taken - 1;
        if place / PIECE == self.pieces.len() {
            let piece = std::iter::repeat_with(T::default).take(PIECE).collect();
            self.pieces.push(piece);
        }
        place
    }

    /// Gives a place back; its last value is returned.
    pub fn give_back(&mut self, place: usize) -> T {
        self.taken -= 1;
        self.free.push(place as u32);
        std::mem::take(self.at(place))
    }

    /// The value at a place that was taken.
    pub fn at(&mut self, place: usize) -> &mut T {
        &mut self.pieces[place / PIECE][place % PIECE]
    }

    /// How many places are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// The values of all places; those given back have the default one.
    pub fn values(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flat_map(|piece| piece.iter_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, Places};

    #[test]
    fn places_are_reused_and_grow_by_pieces() {
        let mut places: Places<u32> = Places::default();
        let taken: Vec<usize> = (0..PIECE + 2).map(|_| places.take()).collect();
        assert_eq!(taken, (0..PIECE + 2).collect::<Vec<_>>());
        *places.at(PIECE) = 7;
        assert_eq!(places.give_back(PIECE), 7);
        assert_eq!(places.taken(), PIECE + 1);
        assert_eq!(places.take(), PIECE);
        assert_eq!(*places.at(PIECE), 0);
        assert_eq!(places.values().count(), 2 * PIECE);
    }
}
