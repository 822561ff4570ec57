import java.util.*;
public class T { public static void main(String[] a) throws Exception { Map<String, Integer> m = new HashMap<>(); for (int i = 0; i < 50000; i++) m.put("k" + i, i);
Thread[] t = new Thread[4]; int[] n = new int[4]; for (int i = 0; i < 4; i++) { int k = i; t[i] = new Thread(() -> n[k] = new ArrayList<>(m.keySet()).size()); t[i].start(); } for (Thread x : t) x.join();
System.out.println(m.size() + " " + Arrays.toString(n)); } }
