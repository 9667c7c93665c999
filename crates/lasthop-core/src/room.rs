//! Room for lists that are long, or of which there are many.

/// Makes room for one more; if there is none, for a quarter more and at least `least`: doubling would leave up to half
/// of it empty.
#[inline]
pub fn make_room<T>(list: &mut Vec<T>, least: usize) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 4).max(least));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_by_a_quarter() {
        let mut list = Vec::new();
        let mut rooms = Vec::new();
        for number in 0..200 {
            make_room(&mut list, 16);
            list.push(number);
            rooms.push(list.capacity());
        }
        rooms.dedup();
        assert_eq!(rooms, [16, 32, 48, 64, 80, 100, 125, 156, 195, 243]);
    }
}
